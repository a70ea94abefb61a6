package services

import (
	"os/exec"
	"syscall"
)

// dieWithParent lets the kernel kill a process when the thread that started it ends.
func dieWithParent(cmd *exec.Cmd) {
	attributes(cmd).Pdeathsig = syscall.SIGKILL
}

// ownNamespaces makes a process the first of namespaces of its own: the kernel unmounts what it mounted, and kills all that
// it started, when it ends. Waiting for it is waiting for all of them.
func ownNamespaces(cmd *exec.Cmd) {
	attributes(cmd).Cloneflags |= syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC
}

func attributes(cmd *exec.Cmd) *syscall.SysProcAttr {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	return cmd.SysProcAttr
}

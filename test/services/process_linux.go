package services

import (
	"os/exec"
	"syscall"
)

// dieWithParent makes the kernel kill a process when the thread that started it ends.
func dieWithParent(cmd *exec.Cmd) {
	attributes(cmd).Pdeathsig = syscall.SIGKILL
}

// ownNamespaces makes a process the first in new namespaces. When it ends, the kernel unmounts its mounts and kills all processes
// that it started. Waiting for the process also waits for them.
func ownNamespaces(cmd *exec.Cmd) {
	attributes(cmd).Cloneflags |= syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC
}

func attributes(cmd *exec.Cmd) *syscall.SysProcAttr {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	return cmd.SysProcAttr
}

//go:build !linux

package services

import "os/exec"

// dieWithParent does nothing, because this kernel cannot do it.
func dieWithParent(*exec.Cmd) {}

// ownNamespaces does nothing, because the programs that need it are not installed on this system.
func ownNamespaces(*exec.Cmd) {}

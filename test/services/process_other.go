//go:build !linux

package services

import "os/exec"

// dieWithParent does nothing where the kernel has no such thing.
func dieWithParent(*exec.Cmd) {}

// ownNamespaces does nothing: what needs them is not installed here.
func ownNamespaces(*exec.Cmd) {}

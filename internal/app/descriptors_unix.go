//go:build unix

package app

import (
	"math"
	"syscall"
)

// descriptors returns how many descriptors the process may have. The Go runtime has raised the soft limit to the hard one.
func descriptors() uint64 {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return math.MaxUint64
	}
	return limit.Cur
}

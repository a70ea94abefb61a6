//go:build unix

package natsserver

import (
	"os"
	"syscall"
)

// lockFile locks the file for this process. The system releases the lock when the process ends, however it ends.
func lockFile(file *os.File) error {
	return syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}

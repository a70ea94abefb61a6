//go:build unix

package natsbus

import (
	"os"
	"syscall"
)

// lockFile takes the file for this process. The system gives it up when the process ends, however it ends.
func lockFile(file *os.File) error {
	return syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}

package bench_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// forget makes the operating system forget what it has cached of the files in a folder.
func forget(b *testing.B, dir string) {
	b.Helper()
	const dontNeed = 4 // POSIX_FADV_DONTNEED
	require.NoError(b, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }() // it was only read
		if err := file.Sync(); err != nil { // what is not on disk is not forgotten
			return err
		}
		if _, _, errno := syscall.Syscall6(syscall.SYS_FADVISE64, file.Fd(), 0, 0, dontNeed, 0, 0); errno != 0 {
			return errno
		}
		return nil
	}))
}

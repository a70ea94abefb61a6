package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// dropCached drops the files of a folder from the system's cache, and reports whether that is possible. It is not on a file system in memory.
func dropCached(dir string) (bool, error) {
	var on unix.Statfs_t
	if err := unix.Statfs(dir, &on); err != nil {
		return false, fmt.Errorf("drop the files of %s from the cache: %w", dir, err)
	}
	if on.Type == unix.TMPFS_MAGIC || on.Type == unix.RAMFS_MAGIC {
		return false, nil
	}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		file, err := os.Open(path) //nolint:gosec // it is a file of the benchmark
		if err != nil {
			return err
		}
		// Only what is on the disk can be dropped.
		return errors.Join(file.Sync(), unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED), file.Close())
	})
	if err != nil {
		return false, fmt.Errorf("drop the files of %s from the cache: %w", dir, err)
	}
	return true, nil
}

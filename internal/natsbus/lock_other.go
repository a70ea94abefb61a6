//go:build !unix

package natsbus

import "os"

// lockFile does nothing: these systems have no lock in the standard library that ends with the process.
func lockFile(*os.File) error { return nil }

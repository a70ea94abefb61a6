//go:build !unix

package natsserver

import "os"

// lockFile does nothing: the standard library has no lock for these systems that ends with the process.
func lockFile(*os.File) error { return nil }

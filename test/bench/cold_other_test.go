//go:build !linux

package bench_test

import "testing"

// forget would make the operating system forget what it has cached of the files in a folder: only Linux can be told to.
func forget(*testing.B, string) {}

//go:build !unix

package app

import "math"

// descriptors reports no limit.
func descriptors() uint64 { return math.MaxUint64 }

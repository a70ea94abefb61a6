//go:build !linux

package bench

// dropCached reports that files cannot be dropped from the system's cache.
func dropCached(string) (bool, error) { return false, nil }

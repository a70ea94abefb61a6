//go:build !linux

package main

// dropCached reports that files cannot be dropped from the system's cache.
func dropCached(string) (bool, error) { return false, nil }

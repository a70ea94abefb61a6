//go:build !race

package pebblestore_test

// interleavings are all of them.
const interleavings = 0

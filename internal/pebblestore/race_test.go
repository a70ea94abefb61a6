//go:build race

package pebblestore_test

// interleavings is how many are tried for each scenario under the race detector.
const interleavings = 25

//go:build race

package testenv

// Race tells whether the test has the race detector.
const Race = true

//go:build mongodb && race

package mongostore_test

// With the race detector, random tests repeat less. Their actors take turns, so more repetitions show the detector nothing new.
const (
	// interleavings is the number of schedules of each scenario.
	interleavings = 1
	// checks is the number of cases of each test with rapid.
	checks = "5"
)

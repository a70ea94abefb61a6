//go:build mongodb && !race

package mongostore_test

const (
	// interleavings is the number of schedules of each scenario. A schedule takes hundreds of round trips.
	interleavings = 3
	// checks is the number of cases of each test with rapid: a fifth of the default, because every operation is a round trip.
	checks = "20"
)

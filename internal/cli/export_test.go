package cli

// TestClock is for the tests of this package.
var TestClock = testClock

package cli

var (
	// TestClock is for the tests of this package.
	TestClock = testClock
	// NewRoot and NewRole return the command of a program.
	NewRoot = newRoot
	NewRole = newRole
)

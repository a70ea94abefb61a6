// Package e2e tests the built programs from outside, like their users: over HTTP, with commands, with signals and with kill -9.
//
// TestClockIsSet sets the clocks of running servers ahead and back by up to an hour under load (test/wrongclock), as TestUnderFire and
// TestRolesApart do with clocks that are up to a minute apart. The checker learns from a file when which clocks were possible.
//
// With FANMAIL_E2E_FULL=1, the longest tests use all of their data. Otherwise some use a part: those with the race detector, those
// that kill the server, and those in which users return. -parallel 1 runs the tests one after another.
package e2e

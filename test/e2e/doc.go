// Package e2e drives the built programs from outside, as their users do: over HTTP, by commands, by signals and by kill -9.
//
// With FANMAIL_E2E_FULL=1 the longest tests take the whole of their data where they would take a part of it, which is
// with the race detector, and for the tests that kill the server or let users come back; -parallel 1 has them run one by
// one. FANMAIL_E2E_SEED repeats what happened at random in a test that printed it.
package e2e

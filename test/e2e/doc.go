// Package e2e drives the built programs from outside, as their users do: over HTTP, by commands, by signals and by kill -9.
//
// With FANMAIL_E2E_FULL=1 the longest tests take the whole of their data where they would take a part of it, which is
// with the race detector, and for the test that kills the server.
package e2e

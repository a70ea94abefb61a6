// Package client is a typed client of Fanmail's HTTP interface, and the home of what goes over the wire: the server
// encodes and decodes the same types.
//
// Inputs that cannot be right are refused before anything is sent, with a *message.InvalidError. What the server
// refuses comes back as a *Problem, which says why and what to do. Everything else that goes wrong is an
// error that names the server.
//
// A call is repeated, a bounded number of times, where repeating is harmless: when the server was busy, bounds the rate or has a clock that
// is ahead, and has published nothing, and, for calls that are idempotent, when it could not be reached or the connection broke. Publishing is
// idempotent with an idempotency key only. Every method returns as soon as its context ends.
package client

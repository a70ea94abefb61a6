// Package client is a typed client of Fanmail's HTTP API. It also declares the types on the wire, which the server uses, too.
//
// The client checks inputs before it sends anything. An invalid input is a *message.InvalidError. A request that the server refuses
// is a *Problem, which says why and what to do. Other errors name the server.
//
// A call is repeated a limited number of times, if that is safe. Two cases are safe. First, the server has done nothing, because it
// was busy, limited the rate, or has a clock that is ahead. Second, the call is idempotent, and the server was unavailable, could
// not be reached, or the connection broke. Publishing is idempotent only with an idempotency key. Every method returns when its
// context ends.
package client

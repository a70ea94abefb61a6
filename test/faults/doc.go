// Package faults tests a running Fanmail while its MongoDB server, or the network to it, fails. Meanwhile messages are published
// and fanned out, and users return. The server is unreachable or killed; replies are slow, incomplete, late or lost. Fanmail itself
// is not restarted. At the end every inbox must be exactly right, according to test/check and "fanmail audit".
//
// docs/delivery-guarantees.md and docs/operations.md describe the effects on clients and operators.
package faults

// Package faults lets things happen to the MongoDB server of a running Fanmail and to the network between the two, while messages are
// published and fanned out, and users come back: the server is away, is killed, answers slowly, half, late or not at all. Nothing of
// Fanmail is started again. In the end every inbox has to be exactly right, as test/check and "fanmail audit" find it.
//
// docs/delivery-guarantees.md and docs/operations.md say what clients and operators see of it.
package faults

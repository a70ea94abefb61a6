// Package rig assembles the pipeline from publishing to the inbox on its real parts, for tests: the embedded store on a
// file system that can crash, or MongoDB on a real server, the embedded NATS server, and a clock that stands still. Between any two
// operations on the store or the bus there is a seam, at which a test can stall the actor, make the operation fail, or
// kill the actor. On MongoDB there can also be a seam between any two commands; an operation may take several commands.
package rig

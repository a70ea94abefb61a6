// Package pebblestore holds every store of Fanmail in one Pebble database: the embedded default.
//
// One process owns the folder. Within it, reads take no locks: an iterator sees the database as it is at one
// moment. Whatever reads in order to write holds stripes of a lock table meanwhile, chosen by the user, edge or
// message that it is about, so that no two such calls come between each other's read and write.
//
// What a contract calls durable is synced to the write-ahead log before the call returns, but never while locks
// are held: a batch is applied under the locks, which makes it visible, and waited for outside, so that Pebble
// syncs the batches of many callers at once. The log is one sequence: whatever a call has seen comes before
// what it writes, and whatever survives a crash does so together with all that came before it. One case is left:
// a call that finds what it was to write in place already, put there by somebody who still waits for the sync.
// Such a call waits for a sync of its own (see DB.barrier).
//
// What a contract lets be lost together with all that follows is not synced at all: pushes before Persist, lazy steps. The
// order of the log sees to the rest. So a fan-out syncs once for a batch, when it records how far it is, and a
// rehydration never: what it has done is durable when anything is that was done later.
//
// All keys are laid out in keys.go; the first byte of every value is the version of its format.
package pebblestore

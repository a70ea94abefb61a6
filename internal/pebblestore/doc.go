// Package pebblestore holds every store of Fanmail in one Pebble database. It is the embedded default.
//
// One process owns the folder. Reads take no locks: an iterator sees the database as it is at one moment. A call that reads in
// order to write holds stripes of a lock table. The user, edge or message of the call selects the stripes. So no two such calls
// interleave their reads and writes.
//
// If a contract calls a write durable, it is synced to the write-ahead log before the call returns. The call does not hold locks during the
// sync. It applies the batch under the locks, which makes it visible. It waits for the sync outside, so that Pebble syncs the batches of
// many callers at once. The log is one sequence: the data that a call has read stands in it before the data that the call writes. After a
// crash, a write that survives has all earlier writes with it. One case needs more. A call may find its result already in place, written by
// another caller that still waits for the sync. Such a call waits for a sync of its own (see DB.commit).
//
// Some contracts allow a write to be lost together with all later writes: pushes before Persist, and lazy steps. The store does
// not sync them. The order of the log is enough. So a fan-out syncs once for each batch, when it records its progress. A
// rehydration never syncs: its writes are durable as soon as any later write is.
//
// Large pushes do not go through the log. They become sorted tables, which Pebble takes over, and which are durable at once. So everything that
// was written before is synced first, and the order holds for them, too: see Inbox.pushTables. They hold no stripes during their syncs, but
// reserve their owners.
//
// keys.go defines the layout of all keys. The first byte of every value is its format version.
package pebblestore

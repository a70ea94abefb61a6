// Package mongostore holds every store of Fanmail in one MongoDB database: a sharded cluster, a replica set, or a server that
// speaks the MongoDB protocol.
//
// The package needs only atomic updates of single documents. It uses no transactions and no change streams. An operation that a
// store contract calls atomic is one conditional update of one document. An edge is stored in two documents, one for each end.
// They are written in a fixed order, so that a reader that finds the first without the second completes it.
//
// # What a caller may rely on
//
// Writes are acknowledged by a majority and journaled. Reads go to the primary. A deposed primary that does not know it yet may
// still answer reads, and its answers miss the writes that the new primary has acknowledged. A fan-out that skips a user
// because of such an answer loses messages, and so does a rehydration that queries by it. So reads are linearizable where
// there are replicas, except those whose older answer is merely shown or errs to the safe side (collection.older). Linearizability
// costs one write to a majority for each command. A command reads hundreds or thousands of documents.
//
// MongoDB promises linearizability for a query of one document. For a query of many documents it promises no common point in
// time, and no contract here needs one. Each document is read by its immutable key and is at least as new as the start of the
// read. A server outside a replica set cannot be deposed.
//
// Every operation has a deadline, Options.Timeout. Writes send it to the server as maxTimeMS, so a server that honours it stops
// when the caller stops waiting. The driver does not send it with queries. Views, steps and edges are compared with a clock and
// must not take effect late, but the network can delay any command. So these changes carry a bound that the server compares
// with its own clock (late.go).
//
// An operation that fails for a reason that may pass is tried again with growing pauses until the deadline. Every operation
// here is idempotent. After the deadline the caller gets ErrUnavailable: the change may or may not have happened.
//
// # Shards
//
// names.go lists the collections and schema.go their shard keys and indexes. Every query and every update names its shard key,
// except a few that must ask every shard. The tests list these few and fail for any other.
package mongostore

// Package mongostore holds every store of Fanmail in one MongoDB database: a sharded cluster, a replica set, or a server
// that speaks its protocol.
//
// Nothing here needs more than atomic updates of single documents: no transactions, no change streams. What a contract calls
// atomic is one conditional update of one document. What two documents say of the same thing (an edge is filed under
// both of its ends) is written in an order in which whoever finds the first without the second completes it.
//
// # What a caller may rely on
//
// Writes are acknowledged by a majority, and journaled. Reads go to the primary. That alone lets a primary answer that has
// been deposed and does not know it yet: what it answers misses what the new one has acknowledged, and a fan-out that skips
// a user by it, or a rehydration that queries by it, loses messages. So where there are replicas, all reads are
// linearizable. That costs one round through a majority for each command, not for each document, and commands here read
// hundreds or thousands of documents. MongoDB promises linearizability for a query of one document; of a query of many it
// promises no common moment, which no contract here asks for: each document is read by its immutable key, and is at least
// as new as the beginning of the read. A server that is none of a replica set has nobody to be deposed by.
//
// Every operation has a deadline, Options.Timeout. Writes take it along (maxTimeMS), so that a server that honours it does
// not carry on with what nobody waits for; the driver leaves it out of queries. A change that is judged by a clock, as views,
// steps and edges are, and must not take effect late, carries a bound that the server compares with its own clock (see late.go):
// a command can be held up on its way by anybody.
//
// What failed for a reason that may pass is tried again until the deadline, with growing pauses, since every operation
// here may be repeated. What is left is ErrUnavailable: nothing is known of it then.
//
// # Shards
//
// names.go lists the collections, their shard keys and their indexes. Every query and every update names its shard key,
// but for a few that have to ask every shard: the tests list them and fail for any other.
package mongostore

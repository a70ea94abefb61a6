// Package retention lets messages expire. The Purger raises the purge points of users. The Trimmer finds those that leave
// the newest messages, and the Emptier empties the buckets below purge points. Both serve queues in memory. The Walker looks at all users in rounds, and finds those whom a process that died has left.
//
// A round goes through the partitions, in the order of users. One process walks at a time. All processes share the Round, a record with the
// token and the lease of that process and the place that it has reached. The process renews the lease with each place that it records. Another
// process takes over a dead lease, and continues at the recorded place. If clocks differ, two processes may walk the same stretch. That is
// harmless, because Options.Keep may be repeated and run twice at the same time.
//
// The record does not grow: each round replaces the one before.
package retention

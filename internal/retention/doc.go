// Package retention lets messages expire. The Walker looks at all users in rounds, and carries out steps: it purges what is too old (Keep), trims
// inboxes to their newest messages, and empties the buckets below purge points. Users whose inbox has grown or whose purge point has risen need
// not wait for the round: they wait in a queue in memory. After a round, plans are concluded, and messages and edges removed that no process needs.
//
// A round goes through the partitions, in the order of users. One process walks at a time. All processes share the Round, a record with the
// token and the lease of that process and the place that it has reached. The process renews the lease with each place that it records. Another
// process takes over a dead lease, and continues at the recorded place. If clocks differ, two processes may walk the same stretch. That is
// harmless, because each step may be repeated and run twice at the same time.
//
// The record does not grow: each round replaces the one before.
package retention

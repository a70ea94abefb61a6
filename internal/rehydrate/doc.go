// Package rehydrate brings users back: it notices at a login, or when an inbox is opened, that its owner was dormant,
// finds by fan out on read what they missed, and rebuilds the inbox, so that it is as if they had never been away.
//
// # A rehydration
//
// Package userstate tells which changes of a user's state it consists of and why nothing is lost between them. In order:
//
//	arrive   the mark is set, in the same change as LastViewed; fan-out leaves what comes now to the rehydration
//	bound    if more was missed than Options.Limit, the older part of it is left to a gap
//	append   what was missed is appended, oldest first, a few buckets at a time
//	settle   the mark becomes a sweep; fan-out delivers again
//	sweep    what became visible behind the first query's back is looked for once more, and appended
//	finish   the sweep is removed
//
// It may be repeated from any point by anybody: appending is exactly once (package bucket), and the rest are
// compare-and-swaps under a token. Whoever is at it holds a lease, and renews it. The reaper of every process takes over
// what has a dead lease, whoever died.
//
// A gap is decided before anything is appended, and reaches only up to what was settled before the first query: what
// can still become visible is always appended. What was sent beyond the user's horizon is left to the next rehydration.
// So a gap and the buckets have no message in common, the messages of a gap can be counted once and for all, and everybody who appends (fan-out, the sweep, a follow that catches up) leaves
// a gap alone.
//
// # Fan out on read
//
// A Feed is everything that is for one user, in order, whatever is in their inbox: the messages of those whom they
// followed at the time, and those that name them. Rebuilding, the pages of an inbox that is being rebuilt, and gaps all
// read it.
//
// # Stampedes
//
// There is at most one flight per user in a process. Flights wait in one queue, in the order in which they came, and
// a fixed number of workers, who do nothing else, carry them out. Pages do not wait for them. Where the queue is full the
// mark alone remains, and the reaper finds it when there is room again.
package rehydrate

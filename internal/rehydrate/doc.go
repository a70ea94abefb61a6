// Package rehydrate brings dormant users back. At a login or a view it notices that the user was dormant. It finds the missed messages by
// fan out on read, and rebuilds the inbox. Afterwards the inbox is the same as that of a user who never left.
//
// # A rehydration
//
// A rehydration is a sequence of changes of the user's state. Package userstate explains why no message is lost between them:
//
//	arrive   set the mark, in the same change as LastViewed; from now on fan-out leaves new messages to the rehydration
//	bound    if the user missed more than Options.Limit messages, leave the older ones to a gap
//	append   append the missed messages, oldest first, one page at a time
//	settle   replace the mark by a sweep; from now on fan-out delivers again
//	sweep    look again for messages that the first query could not see, append them, and count the gaps again
//	finish   remove the sweep
//
// Any process may repeat a rehydration from any point, because an append takes effect once (package bucket) and the other changes
// are compare-and-swaps under a token. The worker holds a lease and renews it. If its process dies, the reaper of another
// process takes the rehydration over when the lease has ended.
//
// The worker decides the gap before it appends. Fan-out, the sweep and a follow that catches up never append inside a gap. So a message
// is either in the gap or in a bucket, never both. Messages sent after the user's horizon are left to the next rehydration.
//
// # Fan out on read
//
// A Feed finds all messages for one user in order, in the inbox or not. It finds messages of authors whom the user followed at the time,
// and messages that name the user. Rebuilding, gaps, and the pages of an inbox under rebuild read it.
//
// # Stampedes
//
// A process has at most one job per user. Jobs wait in one queue, first in, first out, for a fixed number of workers. Pages do not
// wait for them. If the queue is full, only the mark remains, and the reaper finds it when the queue has room again.
package rehydrate

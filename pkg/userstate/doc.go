// Package userstate holds what Fanmail knows of a user: when they last looked, whether their inbox is being rebuilt,
// where its head was seen, and up to where they have read; and the rules that decide from it whether fan-out
// delivers to them.
//
// # Active and dormant
//
// An inbox is kept warm for Rules.DormantAfter after its owner last looked. Until then, its horizon, the user is
// active and every message for them is copied into their inbox. What is sent later is left to be found when they
// come back. A user who was never seen has no horizon: nothing is copied for them.
//
// # Coming back
//
// A user who looks again after that is rehydrated. Rules.Arrive sets LastViewed and a Mark in one step. The mark
// keeps the horizon that was passed; from then on fan-out leaves to the rehydration whatever was sent later.
// The rehydration then queries the messages sent after the mark and appends them. If there are too many, it first
// decides which of the older ones are left to a Gap, which reads answer by the same query for ever.
// Settle turns the mark into a Sweep: fan-out delivers again. A worker that read the state before that may still have
// left something, which was stored before that too. So the rehydration looks once more, from the moment on at which
// what its first query did not see can have been sent at the earliest, and then Finish removes the sweep.
//
// Each of these changes is one compare-and-swap of the state, by a holder who names the token of its lease. Whoever has
// lost the lease changes nothing any more, and what it still appends is in the inbox once all the same. Every change
// may be followed by the death of whoever made it: the mark or the sweep remains, and Store.Due finds it. A sweep that
// nobody finished stays beside the mark of the next rehydration, which ends both.
//
// Two things are easy to get wrong. A rehydration appends nothing that was sent after the user's horizon, as it knows it:
// that is for the next one, which may leave it to a gap, and a gap and the buckets have no message in common. If the
// horizon is raised meanwhile, the sweep begins where this one ended. And who is active is judged by a clock that is read
// before the change takes effect, so that the change has to take effect within half of Rules.ClockTolerance, or not at all.
//
// test/proof checks this exhaustively for small instances.
package userstate

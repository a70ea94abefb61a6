// Package userstate defines the record of a user: the last view, the state of a rehydration, a hint for the inbox's head, and the read
// mark. Rules decide from this record whether fan-out delivers to the user.
//
// # Active and dormant
//
// Until a user's horizon the user is active, and fan-out copies every message for the user into the inbox. After the horizon the user is
// dormant: fan-out skips the user, and a rehydration appends the missed messages when the user returns. A user without a record has no
// horizon, so fan-out copies nothing.
//
// The horizon is stored, and never falls. A view raises it to the time of the view plus Rules.DormantAfter. The view
// of an active user does so only if that gains a 32nd of DormantAfter. Fan-out may have skipped messages beyond the old horizon, so every
// raise leaves a debt in the same update. A dormant user gets a Mark, an active user a Sweep from the old horizon. So a wrong clock, or a
// change of DormantAfter, loses nothing.
//
// # Returning
//
// When a dormant user opens the inbox or logs in, Rules.Arrive sets LastViewed, the horizon and a Mark in one step. The mark keeps
// the old horizon.
// While the mark is set, fan-out leaves messages that were sent after it to the rehydration. A worker then queries the messages
// that were sent after the mark and appends them. If there are too many, it first decides which of the older ones it leaves to a
// Gap. Readers answer a gap by the same query, permanently.
//
// Settle then replaces the mark by a Sweep, and fan-out delivers to the user again. A fan-out worker that read the state before Settle
// may still skip the user. Messages that it skips were stored before Settle. So the rehydration queries the same messages again, from
// the mark, and counts the messages of all gaps. Finish then removes the sweep.
//
// These queries begin at the mark and end at the horizon. They use no clock, because a message may have any time. A message may also become
// visible in a gap after the count. A worker that leaves it there calls Owe, which makes another sweep due. Each count of a gap raises the
// number of its read messages, too, in the same step: see State.Count.
//
// Fan-out cannot read a damaged record, and skips its user. When the record is restored, OweFrom makes a sweep due from the first missed
// message on.
//
// Each of these changes is one compare-and-swap of the state by the worker that holds the lease. A worker that has lost the lease
// cannot change the state. It may still append, which is harmless because appends are idempotent. A process may die after any
// change: the mark or the sweep remains, and Store.Due returns it to another worker. If a user returns again before a sweep is
// finished, the state has a mark and a sweep, and the next rehydration ends both.
//
// Two rules are easy to break:
//
//   - A rehydration appends no message that was sent after the horizon in the state that it read. Such a message belongs to the next
//     rehydration, which may leave it to a gap, and no message may be both in a gap and in a bucket. If the horizon moves meanwhile,
//     the sweep begins where the first query ended.
//   - The caller reads a clock to decide who is active, before the change takes effect. So the change must take effect within half
//     of Rules.ClockTolerance, or not at all.
//
// # Expiry
//
// Every message at or below State.Purged has expired for the user: no reader shows or counts it. State.Purge raises that id, and cuts the
// gaps to what is above it, in one step. Rehydrations query only what is above it, and Bound refuses a gap that begins below it. Fan-out need
// not know it: a message that arrives later at or below it has expired on arrival.
//
// test/proof checks this exhaustively for small instances.
package userstate

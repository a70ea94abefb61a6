// Package fanout copies published messages into the inboxes of their recipients (fan out on write).
//
// The Router turns each published message into tasks, one for each partition of its audience, in a lane by the size
// of that audience. The Deliverer works on the tasks that wait in one lane and partition, as one batch:
//
//	take     hold one task, and with it the lane's partition; read the others that wait
//	merge    go through their audiences, ordered streams, from a common position to a common end
//	append   look up the owners' states, skip the dormant, append once per owner what is for them,
//	         stretch by stretch: while one is appended, the next one is merged and looked up
//	record   move each task's scan forward, by compare-and-set
//	emit     a continuation for each task that is not done
//	remove   the batch from the queue, the held task last
//
// in that order, so that a crash between any two steps repeats work and loses none: appending takes effect once
// (package bucket), and of two records of the same stretch one is refused (package progress).
//
// # The shared, circular scan
//
// A task does not start at the first recipient of its partition but joins those under way where they are, moves
// with them to the end and on from the beginning, and is done when it comes back. So all messages that are being
// fanned out in a partition are always at the same owners, and an owner's bucket is written once for all of
// them. Databases know this as a cooperative scan. Should tasks be found at different positions, after a crash,
// the group at the lowest moves, up to the next one's position, until they are one group again.
//
// A task joins at a range of recipients that is read after the task was taken: whoever began to follow before the
// message was stored is in it.
//
// # Who is responsible
//
// Holding a task makes a worker the only one at its partition, which is good for speed and order. Correctness does
// not rest on it: a worker that was taken for dead may come back at any point and go on.
//
// The Sweeper finds what was forgotten: messages that are not done and did not move for a while. Work that cannot
// succeed is put among the dead letters, with its reason, and blocks nobody.
package fanout

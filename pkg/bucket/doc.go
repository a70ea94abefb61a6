// Package bucket holds the inbox: entries in buckets of Capacity slots, the protocol that appends a message
// to an inbox exactly once, and the rules by which pages are read.
//
// An inbox is a sequence of buckets (owner, 0), (owner, 1), … Only the one with the highest sequence, the
// head, still grows. A slot is never used again: deleting an entry leaves a tombstone with its id in its slot.
//
// In a bucket, last is the greatest message id in it or in any earlier bucket, and floor the greatest in any
// earlier bucket. Three invariants carry everything else:
//
//	(a) bucket s+1 is created only when bucket s has Capacity slots;
//	(b) a bucket with Capacity slots gets no more entries, so whether it holds a message never changes again;
//	(c) the floor of bucket s+1 is the final last of bucket s, set when it is created and never changed.
//	    Bucket 0 has no floor, which is below every id (the zero ID).
//
// So a bucket whose floor is below a message's id proves that no earlier bucket holds that message.
//
// Work is delivered at least once, processes stall and come back, clocks lie. The Appender therefore uses
// nothing but atomic updates of single buckets (Store.Push) and no clock:
//
//  1. A guarded push onto the bucket that a hint names. It applies only if the bucket has room, holds none of
//     the messages, and has a floor below all of them.
//  2. Where that is refused, a look: first the head alone, which proves that every bucket below it is full
//     and unchanging; then those below it, downward, until one has a floor below the message. Whoever reads
//     them in another order, or in one query, can miss a message that moved in between. The look is spared
//     where a store tells, with its refusal, that the bucket's last was below every entry (Outcome.Seen): then
//     none of them is in it or in an earlier one.
//  3. What was not found is pushed without the guard onto the head that was seen, as much as fits, oldest
//     first; or, if that was full, onto the next bucket, which the push creates with the full one's last as
//     its floor.
//
// Why a message cannot be in two places: pushes into one bucket are ordered by its atomicity, and Push refuses
// an id that the bucket holds. Of pushes into different buckets, the one into the later bucket either had
// the floor below the id (no earlier bucket can hold it) or saw every earlier bucket when it was full, hence
// unchanging, and without the message. Where the look was spared, the last of the bucket before was below the
// id; and that bucket was full when the later one came to be, so that it cannot have got the message since.
package bucket

// Package bucket holds the inbox: its buckets of slots, the protocol that appends a message exactly once, and the rules for reading pages.
//
// An inbox is a sequence of buckets (owner, 0), (owner, 1), … The bucket with the highest sequence is the head. Only the head
// grows. A slot is never reused: deleting an entry replaces it by a tombstone with its id.
// A message that is in no bucket is deleted by appending its tombstone, which follows the same protocol.
//
// Each bucket has a last and a floor. No message id in this bucket and all earlier ones is above the last. No message id in all earlier
// buckets is above the floor. The protocol keeps three invariants:
//
//	(a) A writer creates bucket s+1 only when all slots of bucket s are taken.
//	(b) A full bucket gets no more entries. So whether it holds a message never changes again.
//	(c) The floor of bucket s+1 is the last of bucket s when that was full. Bucket 0 has no floor: the zero id, which is below
//	    every id.
//
// All buckets of a store have the same number of slots. So the first slot of a bucket has the position sequence × size in the inbox.
//
// So if the floor of a bucket is below a message's id, no earlier bucket holds that message.
//
// A bucket may also have facets, by which an Index finds it. Its Decl says for which declarations of attributes it has those of all its entries. A
// push names the Decl that its bucket must have, and adds the facets of its entries. So a writer that knows fewer declarations adds no entry without its
// facets: the store refuses the push, and the writer loads the declarations. A writer that creates a bucket knows at least the declarations of the
// bucket below. So the buckets without the facets of a declaration are the lowest ones.
//
// Fan-out delivers its work at least once. Processes stall and continue later, and clocks differ. Therefore the Appender uses only
// atomic updates of single buckets (Store.Push), and no clock:
//
//  1. It makes a guarded push onto the bucket that the hint names. The push applies only if the bucket has room, holds none of
//     the messages, and has a floor below all of them.
//  2. If the store refuses the push, the Appender looks. It reads the head first. That proves that every bucket below the head is
//     full and does not change. Then it reads the buckets below, downward, until one has a floor below the message. Reading in
//     another order, or in one query, can miss a message that another writer appends in between. The store may say with its
//     refusal that the last of the bucket was below every entry (Outcome.Seen). Then no bucket holds them, and the Appender
//     skips the look.
//  3. It pushes the messages that it did not find, without the guard, onto the head that it saw: as many as fit, oldest first. If
//     the head was full, it pushes onto the next bucket. That push creates the bucket, with the last of the full bucket as floor.
//
// Why a message cannot be in two buckets: consider two pushes of the same message into different buckets. For the push into the later
// bucket there are three cases. The floor was below the id, so no earlier bucket can hold the message. Or the Appender read every earlier
// bucket when it was full, so unchanging, and did not find the message. Or the Appender skipped the look: then the last of the bucket
// before was below the id. That bucket was full when the later one was created, so it cannot have received the message since. Two pushes
// into one bucket are ordered because each is atomic, and Push refuses an id that the bucket holds.
//
// Messages expire up to a purge point, which only rises. Buckets are emptied afterwards (Store.Empty, Emptying), for any purge point of the
// past. A full bucket becomes a stub. No push applies to it, and a look takes every id up to its last as found, because these messages have
// expired. In a bucket with room, an entry keeps its id and slot, so Push still refuses the id. So no writer needs to know the purge point,
// and the invariants hold. A store that removes buckets must refuse pushes onto them under the lock that the removal takes. Otherwise a
// stalled guarded push creates bucket 0 again.
//
// A message from the future raises the last of its bucket, and both bounds of all buckets above, for good. This costs time, because every later
// message seems to come late. So message.Store refuses such a message.
package bucket

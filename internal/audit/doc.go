// Package audit knows what should be in an inbox, and why something is not.
//
// Explain tells, of one user and one message, why the user has it, has not, or is going to get it. Audit recomputes whole
// inboxes from what was published and who followed whom, compares them with what is stored, and mends what it can.
//
// It is a second opinion. What decides whether a message is for a user is one predicate for everybody (follow.For, and
// message.Stored.Void); everything else is worked out here anew, and not by what delivers, rebuilds or pages: a fault of
// theirs is not repeated.
//
// # Auditing while others write
//
// Everything is read as it is at some moment, while messages are published, delivered and deleted. So a finding is
// reported only if a second look at the user, from the beginning, comes to the same. A message that was on its way
// during the first look is in the inbox during the second; whatever is found twice was there in between. Whoever follows
// appends what fan-out had passed when the edge became visible: what is missing from the beginning of an edge that began
// just now is looked for a third time, after a pause.
//
// What cannot be judged at the moment is counted apart, and is no finding:
//
//	in flight      the fan-out of the message has yet to come to the user
//	rehydrating    a mark or a sweep is there, or the state changed during every look: somebody is at the inbox
//	dead-lettered  the fan-out was given up before it came to the user
//	tolerated      in the inbox, and sent so close to the beginning or the end of a span of the edge that this may be right
//
// What was sent after a user's horizon may be in the inbox or not, for it is left to a rehydration, and a view may have
// been recorded for a time long past.
//
// # Repairing
//
// What is missing is appended as fan-out would have done it, exactly once (bucket.Appender). What is there twice is blanked
// in one of its places. What does not belong there becomes a tombstone, so that it does not come back. A slot that has
// lost its record becomes a tombstone, if the store can do that. Nothing else is repaired: no store rewrites an entry, a
// bucket's bounds or a gap, for others rely on their never changing. After it has repaired anything, the audit looks again.
package audit

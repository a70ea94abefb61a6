// Package message holds what somebody publishes: a Message, stored once in the canonical store and
// immutable from then on, its ID, its Audience, the rules that make it valid, and the Store contract.
//
// A message id is a UUIDv7 (RFC 9562), so ids sort by publish time. Order is by id, everywhere, and the
// time of a message, Sent, is the time in its id: there is no second one that could disagree.
//
// A message becomes visible at most a configured publish slack after its Sent. The store stamps when it
// stored a message, and one that was stored later than that is void (see Stored.Void): it is as if it had
// never been published, and its publisher publishes again under a new id. Without that rule an insert that
// was held up for minutes could appear behind a reader that has already looked at its time.
package message

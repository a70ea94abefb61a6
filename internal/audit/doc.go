// Package audit checks inboxes against the published messages.
//
// Explain reports, for one user and one message, why the user has it, does not have it, or will get it. Audit computes whole inboxes
// from the published messages and the edges, compares them with the stored inboxes, and repairs what it can.
//
// The audit is a second opinion. It shares with the stages only the rules that decide whether a message is for a user (follow.For and
// userstate.Rules.Void). It computes everything else itself, so that it does not repeat a fault of the code that delivers, rebuilds or pages.
//
// # Auditing while others write
//
// Messages are published, delivered and deleted during an audit. So the audit reports a finding only if a second look at the user, from the
// beginning, finds the same. A message that was under way during the first look is in the inbox during the second. A follow appends the
// messages that fan-out passed before its edge was visible. So the audit looks a third time, after a pause, for a message that is missing
// from the beginning of a new edge.
//
// The audit counts separately what it cannot judge at the moment:
//
//	in flight      the fan-out of the message has not reached the user yet
//	rehydrating    the user has a mark or a sweep, or the state changed during every look: missing messages and numbers of gaps
//	dead-lettered  the fan-out was given up before it reached the user
//	tolerated      the message is in the inbox, and was sent so close to the beginning or end of a span that this may be right, or after the
//	               horizon
//
// A message sent after the user's horizon may be in the inbox or not: a rehydration appends it, and a view may have been recorded for an
// earlier time.
//
// # Repairing
//
// A missing message is appended as by fan-out, exactly once (bucket.Appender). Of a double entry, one place is blanked. An extra entry
// becomes a tombstone, so that it does not come back. A slot whose record was lost becomes a tombstone, if the store can do that.
//
// The number of a gap is set to what the gap holds, unless a rehydration is due (rehydrate.Service.Recount). A tombstone in a gap reduces
// the total by one, so the gap counts its message, even if the message is not for the user any more.
//
// The audit repairs nothing else: stores never rewrite an entry or the ends of a gap, because other code relies on that. An entry in a gap
// stays as well. An old worker may have delivered it, or a deletion that died may have left it, and the two look the same. Its tombstone would
// delete a message that the user still sees. After a repair the audit looks again.
package audit

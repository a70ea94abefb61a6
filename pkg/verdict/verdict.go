// Package verdict has what explaining a message and auditing inboxes conclude.
package verdict

// Verdict is the reason why a user has a message or does not have it.
type Verdict string

// The verdicts. There are no others.
const (
	// Delivered is a message that is in the inbox.
	Delivered Verdict = "delivered"
	// Recovered is a message that a rehydration put into the inbox.
	Recovered Verdict = "recovered"
	// InGap is a message in a gap of the inbox. The server reads it from the messages of its author whenever the inbox is
	// paged.
	InGap Verdict = "in_gap"
	// Expired is a message that has expired for the user, whether it is stored or not.
	Expired Verdict = "expired"
	// Deleted is a message that was deleted from the inbox.
	Deleted Verdict = "deleted"
	// Dormant is a message that a rehydration will recover when the user returns.
	Dormant Verdict = "dormant"
	// Rehydrating is a message that a rehydration will recover, which waits or runs.
	Rehydrating Verdict = "rehydrating"
	// InFlight is a message whose fan-out has not reached the user yet.
	InFlight Verdict = "in_flight"
	// DeadLettered is a message whose fan-out was given up before it reached the user.
	DeadLettered Verdict = "dead_lettered"
	// NotFollowedThen is a message that was sent when the user no longer followed its author, or had never followed the
	// author.
	NotFollowedThen Verdict = "not_followed_then"
	// NotFollowedYet is a message that was sent before the user began to follow its author.
	NotFollowedYet Verdict = "not_followed_yet"
	// NotSubscribedThen is a message to topics. When it was sent, the user was subscribed to none of them nor of their ancestors.
	NotSubscribedThen Verdict = "not_subscribed_then"
	// NotSubscribedYet is a message to topics that was sent before the user subscribed to one of them, or of their ancestors.
	NotSubscribedYet Verdict = "not_subscribed_yet"
	// NotAddressed is a message to others: to a list that does not name the user, or by the user themselves.
	NotAddressed Verdict = "not_addressed"
	// Void is a message that no user gets, because it was stored too late, or because its time was too far ahead of the
	// store's clock.
	Void Verdict = "void"
	// UnknownMessage is an id under which no message is stored.
	UnknownMessage Verdict = "unknown_message"
	// Missing is a message that should be in the inbox and is not.
	Missing Verdict = "missing"
)

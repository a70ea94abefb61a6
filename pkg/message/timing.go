package message

import "time"

// MaxSlack bounds Timing.Slack.
const MaxSlack = 100 * 365 * 24 * time.Hour

// Timing bounds the difference between the time in a message's id and the store's clock when the store inserts the message.
type Timing struct {
	// Slack is how long after its time a message may be stored, at most MaxSlack.
	Slack time.Duration
	// Tolerance is how far the time of a message may be ahead of the store's clock.
	Tolerance time.Duration
}

// Void reports whether a message is void that is sent and stored at the given times. The bounds themselves are allowed.
// A store calls Void, or does the same in its own language, with its own clock.
func (t Timing) Void(sent, storedAt time.Time) bool {
	return storedAt.Sub(sent) > t.Slack || sent.Sub(storedAt) > t.Tolerance
}

// Stamp is what the store records when it stores a message.
type Stamp struct {
	// StoredAt is the time by the store's own clock, in UTC, to the millisecond.
	StoredAt time.Time
	// Void says that the message counts for no user. Fan-out does not deliver it, and readers do not show it. The store decides that at the
	// insert, and it never changes. So all processes agree, whatever their settings are.
	Void bool
}

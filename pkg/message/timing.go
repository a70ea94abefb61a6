package message

import "time"

// MaxSlack bounds Timing.Slack and every slack that judges a message without a verdict. Stores write a longer lag for void messages.
const MaxSlack = 100 * 365 * 24 * time.Hour

// VoidLag is the lag that stores write for a void message, where releases without verdicts read the lag. It is above every slack.
const VoidLag = 2 * MaxSlack

// Timing bounds the difference between the time in a message's id and the store's clock when the store inserts the message.
type Timing struct {
	// Slack is how long after its time a message may be stored, at most MaxSlack.
	Slack time.Duration
	// Tolerance is how far the time of a message may be ahead of the store's clock.
	Tolerance time.Duration
}

// Judge returns the verdict on a message that is sent and stored at the given times: Valid or Void. The bounds themselves are valid.
// A store calls Judge, or does the same in its own language, with its own clock.
func (t Timing) Judge(sent, storedAt time.Time) Verdict {
	if storedAt.Sub(sent) > t.Slack || sent.Sub(storedAt) > t.Tolerance {
		return Void
	}
	return Valid
}

// Verdict says whether a stored message counts. The store decides it at the insert, and it never changes. So all processes agree,
// whatever their settings are. Only Undecided can change: Store.Condemn makes it Void.
type Verdict uint8

const (
	// Undecided is the verdict on a message that an older release stored. Stored.Void judges such a message.
	Undecided Verdict = iota
	// Valid is a message that counts.
	Valid
	// Void is a message that counts for no user.
	Void
)

// Stamp is what the store records when it stores a message.
type Stamp struct {
	// StoredAt is the time by the store's own clock, in UTC, to the millisecond.
	StoredAt time.Time
	Verdict  Verdict
}

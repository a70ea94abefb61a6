package message

import (
	"errors"
	"regexp"
	"strings"
	"time"
)

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

// rfc3339 has the digits that RFC 3339 demands. Package time does without some, and takes a comma for the point.
var rfc3339 = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`)

// ParseTime returns the time in a text as RFC 3339 has it: T and Z may be in lower case, and each number has all its digits. In UTC, its year is 1 to 9999,
// so the time can be written in the same format. An error continues a sentence about the text.
func ParseTime(text string) (time.Time, error) {
	text = strings.ToUpper(text)
	at, err := time.Parse(time.RFC3339, text)
	if at = at.UTC(); err != nil || !rfc3339.MatchString(text) || at.Year() < 1 || at.Year() > 9999 {
		return time.Time{}, errors.New("is not a time such as 2026-01-02T15:04:05.000Z (RFC 3339) in the years 1 to 9999")
	}
	return at, nil
}

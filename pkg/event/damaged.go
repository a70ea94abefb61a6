package event

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/fanmail/fanmail/pkg/message"
)

// ReasonDamaged is the reason for a user who misses messages because a record of the user, or a bucket of the inbox, is damaged or lost.
// The payload is a Damaged.
const ReasonDamaged = "damaged"

// Damaged is the work of a dead letter with ReasonDamaged: deliver what a user missed.
type Damaged struct {
	Version int            `json:"v"`
	User    message.UserID `json:"user"`
	// Since is when the earliest missed message was sent, in UTC, to the millisecond.
	Since time.Time `json:"since"`
	// Until is after all of them: the end of a day.
	Until time.Time `json:"until"`
}

// NewDamaged returns the work for a user who has missed messages, of which the earliest and the latest were sent at the given times.
func NewDamaged(user message.UserID, first, last time.Time) Damaged {
	const day = 24 * time.Hour
	return Damaged{Version: Version, User: user, Since: first.UTC().Truncate(time.Millisecond), Until: last.UTC().Truncate(day).Add(day)}
}

// With returns the work that stands for the messages of both, which are of one user.
func (d Damaged) With(o Damaged) Damaged {
	if o.Since.Before(d.Since) {
		d.Since = o.Since
	}
	if d.Until.Before(o.Until) {
		d.Until = o.Until
	}
	return d
}

// Encode returns the encoded event.
func (d Damaged) Encode() ([]byte, error) { return json.Marshal(d) }

// DecodeDamaged decodes the result of Damaged.Encode. Every error is an ErrMalformed.
func DecodeDamaged(data []byte) (Damaged, error) {
	var d Damaged
	if err := decode(data, &d, &d.Version); err != nil {
		return Damaged{}, err
	}
	if err := checkUser(d.User); err != nil {
		return Damaged{}, err
	}
	if d.Since.IsZero() || d.Until.Before(d.Since) {
		return Damaged{}, fmt.Errorf("%w: a time is missing", ErrMalformed)
	}
	return d, nil
}

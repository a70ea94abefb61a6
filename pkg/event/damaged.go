package event

import (
	"encoding/json"
	"fmt"
	"slices"
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

// NewDamaged returns the work for a user who has missed a message that was sent at the given time.
func NewDamaged(user message.UserID, sent time.Time) Damaged {
	const day = 24 * time.Hour
	return Damaged{Version: Version, User: user, Since: sent.UTC().Truncate(time.Millisecond), Until: sent.UTC().Truncate(day).Add(day)}
}

// With returns the work that stands for the messages of both, which are of one user.
func (d Damaged) With(o Damaged) Damaged {
	d.Since = slices.MinFunc([]time.Time{d.Since, o.Since}, time.Time.Compare)
	d.Until = slices.MaxFunc([]time.Time{d.Until, o.Until}, time.Time.Compare)
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

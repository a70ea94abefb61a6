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
}

// NewDamaged returns the work for a user who has missed messages that were sent since the given time.
func NewDamaged(user message.UserID, since time.Time) Damaged {
	return Damaged{Version: Version, User: user, Since: since.UTC().Truncate(time.Millisecond)}
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
	if d.Since.IsZero() {
		return Damaged{}, fmt.Errorf("%w: there is no time", ErrMalformed)
	}
	return d, nil
}

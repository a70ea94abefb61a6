package event

import (
	"encoding/json"
	"fmt"
	"time"
)

// Reasons of dead letters that anybody who reads events may have.
const (
	// ReasonMalformed is for an event that no release can decode.
	ReasonMalformed = "malformed"
	// ReasonNewer is that of an event which a newer program can read: it is to be redriven when there is one.
	ReasonNewer = "newer_version"
)

// DeadLetter tells that a piece of work cannot succeed, and why.
type DeadLetter struct {
	Version int `json:"v"`
	// Reason is a short word for the kind of failure, fit for a metric's label, such as "malformed".
	Reason string `json:"reason"`
	// Error is what went wrong, in words.
	Error string `json:"error"`
	// Attempts counts how often the work was handed out.
	Attempts int `json:"attempts"`
	// Subject is the one the work came on.
	Subject string `json:"subject"`
	// Payload is the work as it came, which need not be JSON.
	Payload []byte `json:"payload"`
	// Trace is that of the work. It travels beside the payload.
	Trace Trace `json:"-"`
}

// Encode returns the event as it is sent.
func (d DeadLetter) Encode() ([]byte, error) { return json.Marshal(d) }

// DecodeDeadLetter reads what DeadLetter.Encode wrote. Every error is an ErrMalformed.
func DecodeDeadLetter(data []byte) (DeadLetter, error) {
	var d DeadLetter
	if err := decode(data, &d, &d.Version); err != nil {
		return DeadLetter{}, err
	}
	if d.Subject == "" {
		return DeadLetter{}, fmt.Errorf("%w: there is no subject", ErrMalformed)
	}
	return d, nil
}

// Filed is a dead letter as the bus keeps it, until an operator redrives or drops it.
type Filed struct {
	// ID is its place in the stream: later ones have greater ids.
	ID uint64
	// At is when the bus filed it, by the bus's own clock, in UTC.
	At time.Time
	DeadLetter
}

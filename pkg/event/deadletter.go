package event

import (
	"encoding/json"
	"fmt"
	"time"
)

// Reasons of dead letters that every consumer of events may give.
const (
	// ReasonMalformed is the reason for an event that no release can decode.
	ReasonMalformed = "malformed"
	// ReasonNewer is the reason for an event that only a newer release can decode. Redrive the dead letter after an upgrade.
	ReasonNewer = "newer_version"
	// ReasonPanic is the reason for an event on which the consumer's code panicked at each attempt.
	ReasonPanic = "panic"
)

// ReasonFromFuture is the reason for a message that an older release accepted although the time in its id was too far ahead. The payload
// is a Published event, which names the message.
const ReasonFromFuture = "from_future"

// DeadLetter is work that cannot succeed, with the reason.
type DeadLetter struct {
	Version int `json:"v"`
	// Reason is the kind of failure in one word, for example "malformed". It is also the value of a metric's label.
	Reason string `json:"reason"`
	// Error is the text of the error.
	Error string `json:"error"`
	// Attempts is how often the bus handed out the work.
	Attempts int `json:"attempts"`
	// Subject is the subject of the work on the bus.
	Subject string `json:"subject"`
	// Payload is the work as the bus delivered it. It may be any bytes, not only JSON.
	Payload []byte `json:"payload"`
	// Trace is the trace of the work. It travels in headers, not in the payload.
	Trace Trace `json:"-"`
}

// Encode returns the encoded event.
func (d DeadLetter) Encode() ([]byte, error) { return json.Marshal(d) }

// DecodeDeadLetter decodes the result of DeadLetter.Encode. Every error is an ErrMalformed.
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

// Filed is a stored dead letter. The bus keeps it until an operator redrives or drops it.
type Filed struct {
	// ID is the sequence number of the letter in its stream. Later letters have greater ids.
	ID uint64
	// At is when the bus stored the letter, by the bus's own clock, in UTC.
	At time.Time
	DeadLetter
}

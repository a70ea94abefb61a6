package event

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/fanmail/fanmail/pkg/message"
)

// Reasons of dead letters that every consumer of events may give.
const (
	// ReasonMalformed is the reason for an event that no release can decode.
	ReasonMalformed = "malformed"
	// ReasonNewer is the reason for an event that only a newer release can decode. Redrive the dead letter after an upgrade.
	ReasonNewer = "newer_version"
	// ReasonMissing is the reason for an event whose message the store has lost.
	ReasonMissing = "message_not_found"
	// ReasonPanic is the reason for an event on which the consumer's code panicked at each attempt.
	ReasonPanic = "panic"
)

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
	// Cut is the size of the work in bytes if Payload is only a part of it (Shorten), otherwise 0.
	Cut int `json:"cut,omitempty"`
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

// Sizes in bytes of the parts that Shorten keeps.
const (
	keptError   = 512
	keptPayload = 1 << 10
)

// Shorten returns a letter of less than 8 KiB about the same work, for a bus that refuses the whole letter. The payload names the
// message, or the user of a login, in the current format version: a task loses its recipients, so it is one that scans. Of work that
// names neither, Shorten keeps the first KiB. It also cuts the error, and drops the trace.
func (d DeadLetter) Shorten() DeadLetter {
	whole := len(d.Payload)
	if essence := essence(d.Payload); essence != nil {
		d.Payload = essence
	} else {
		d.Payload = d.Payload[:min(whole, keptPayload)]
	}
	if len(d.Payload) != whole {
		d.Cut = whole
	}
	d.Error = strings.ToValidUTF8(d.Error[:min(len(d.Error), keptError)], "")
	d.Trace = Trace{}
	return d
}

// essence returns an event that does the same work as an event of any version, or nil if the work is not recognized.
func essence(payload []byte) []byte {
	var work struct {
		ID        message.ID     `json:"id"`
		From      message.UserID `json:"from"`
		Lane      Lane           `json:"lane"`
		Partition int            `json:"partition"`
		User      message.UserID `json:"user"`
	}
	if json.Unmarshal(payload, &work) != nil {
		return nil
	}
	ref := message.Ref{From: work.From, ID: work.ID}
	var data []byte
	var err error
	switch {
	case check(ref) == nil && work.Lane != "" && work.Partition >= 0:
		lane := Medium
		if work.Lane == Bulk {
			lane = Bulk
		}
		data, err = Task{Version: Version, ID: ref.ID, From: ref.From, Lane: lane, Partition: work.Partition}.Encode()
	case check(ref) == nil && work.Lane == "":
		data, err = NewPublished(ref).Encode()
	case checkUser(work.User) == nil:
		data, err = Login{User: work.User}.Encode()
	}
	if err != nil {
		return nil
	}
	return data
}

// Filed is a stored dead letter. The bus keeps it until it is redriven or dropped.
type Filed struct {
	// ID is the sequence number of the letter in its stream. Later letters have greater ids.
	ID uint64
	// At is when the bus stored the letter, by the bus's own clock, in UTC.
	At time.Time
	DeadLetter
}

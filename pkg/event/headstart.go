package event

import (
	"encoding/json"
	"fmt"

	"github.com/fanmail/fanmail/pkg/message"
)

// HeadStart names some recipients of a message in a partition. A worker delivers the message to them before the scan reaches them. It is a
// hint: the scan delivers to them, too, and counts them, whether a worker handles the head start once, repeatedly or never.
type HeadStart struct {
	Version   int            `json:"v"`
	ID        message.ID     `json:"id"`
	From      message.UserID `json:"from"`
	Lane      Lane           `json:"lane"`
	Partition int            `json:"partition"`
	// Recipients are ascending and without repeats. A user who is no recipient of the message gets nothing.
	Recipients []message.UserID `json:"recipients"`
	// Trace travels in headers, not in the payload.
	Trace Trace `json:"-"`
}

// Ref returns the message's Ref.
func (h HeadStart) Ref() message.Ref { return message.Ref{From: h.From, ID: h.ID} }

// Encode returns the encoded event.
func (h HeadStart) Encode() ([]byte, error) { return json.Marshal(h) }

// DecodeHeadStart decodes the result of HeadStart.Encode. Every error is an ErrMalformed.
func DecodeHeadStart(data []byte) (HeadStart, error) {
	var h HeadStart
	if err := decode(data, &h, &h.Version); err != nil {
		return HeadStart{}, err
	}
	err := check(h.Ref())
	if err == nil {
		err = checkPlace(h.Lane, h.Partition)
	}
	if err == nil {
		err = checkRecipients(h.Recipients)
	}
	if err == nil && len(h.Recipients) == 0 {
		err = fmt.Errorf("%w: there are no recipients", ErrMalformed)
	}
	if err != nil {
		return HeadStart{}, err
	}
	return h, nil
}

package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"github.com/fanmail/fanmail/pkg/message"
)

// DeadLetter is a piece of work that could not succeed.
type DeadLetter struct {
	ID uint64 `json:"id"`
	// At is when it was given up.
	At Time `json:"at"`
	// Reason is a word for the kind of failure, Error what went wrong.
	Reason string `json:"reason"`
	Error  string `json:"error"`
	// Attempts counts how often the work was handed out.
	Attempts int `json:"attempts"`
	// Subject is where the work came from, and where redriving puts it.
	Subject string `json:"subject"`
	// Message and From tell which message it is about, User who had logged in, where that can be read from the work.
	Message *message.ID    `json:"message,omitempty"`
	From    message.UserID `json:"from,omitempty"`
	User    message.UserID `json:"user,omitempty"`
	// Payload is the work as it came if that is text, PayloadBytes if it is not.
	Payload      string `json:"payload,omitempty"`
	PayloadBytes []byte `json:"payload_bytes,omitempty"`
}

// DeadLetterPage is a page of dead letters, oldest first.
type DeadLetterPage struct {
	Letters []DeadLetter `json:"letters"`
	// Next is the id after which the next page begins; 0 on the last one.
	Next uint64 `json:"next,omitempty"`
}

// DeadLetters returns all dead letters, oldest first, those that are filed meanwhile included.
func (c *Client) DeadLetters(ctx context.Context) iter.Seq2[DeadLetter, error] {
	return func(yield func(DeadLetter, error) bool) {
		for after, more := uint64(0), true; more; more = after != 0 {
			page, err := c.deadLetters(ctx, after, 0)
			if err != nil {
				yield(DeadLetter{}, err)
				return
			}
			for _, letter := range page.Letters {
				if !yield(letter, nil) {
					return
				}
			}
			after = page.Next
		}
	}
}

// DeadLetter returns one dead letter, or nil if there is none with this id.
func (c *Client) DeadLetter(ctx context.Context, id uint64) (*DeadLetter, error) {
	if id == 0 {
		return nil, nil //nolint:nilnil // as documented
	}
	page, err := c.deadLetters(ctx, id-1, 1)
	if err != nil || len(page.Letters) == 0 || page.Letters[0].ID != id {
		return nil, err
	}
	return &page.Letters[0], nil
}

func (c *Client) deadLetters(ctx context.Context, after uint64, limit int) (DeadLetterPage, error) {
	query := url.Values{"after": {strconv.FormatUint(after, 10)}}
	if limit > 0 {
		query.Set("limit", strconv.Itoa(limit))
	}
	var page DeadLetterPage
	err := c.do(ctx, call{method: http.MethodGet, path: "/v1/admin/dlq", query: query, idempotent: true, read: jsonInto(&page)})
	return page, err
}

// Redrive puts the work of a dead letter back where it came from. Work that fails again becomes another letter. Redriving is
// harmless to repeat, but is not repeated after a lost answer: the letter may be gone.
func (c *Client) Redrive(ctx context.Context, id uint64) error {
	return c.do(ctx, call{method: http.MethodPost, path: "/v1/admin/dlq/" + strconv.FormatUint(id, 10) + ":redrive"})
}

// Drop removes a dead letter for good. Whoever the work was for does not get it.
func (c *Client) Drop(ctx context.Context, id uint64) error {
	return c.do(ctx, call{method: http.MethodDelete, path: "/v1/admin/dlq/" + strconv.FormatUint(id, 10)})
}

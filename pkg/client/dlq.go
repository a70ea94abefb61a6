package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"github.com/fanmail/fanmail/pkg/message"
)

// DeadLetter is a task that was given up.
type DeadLetter struct {
	ID uint64 `json:"id"`
	// At is the time at which the task was given up.
	At Time `json:"at"`
	// Reason is the kind of failure in one word, Error the text of the error.
	Reason string `json:"reason"`
	Error  string `json:"error"`
	// Attempts counts the deliveries of the task to a worker.
	Attempts int `json:"attempts"`
	// Subject is the subject of the bus that the task came from. Redrive puts the task back there.
	Subject string `json:"subject"`
	// Message and From name the message of the task, User the user of a login. They are empty if they cannot be read from the task.
	Message *message.ID    `json:"message,omitempty"`
	From    message.UserID `json:"from,omitempty"`
	User    message.UserID `json:"user,omitempty"`
	// Payload is the unchanged task if it is UTF-8 text, PayloadBytes if it is not.
	Payload      string `json:"payload,omitempty"`
	PayloadBytes []byte `json:"payload_bytes,omitempty"`
	// Cut is the size of the task in bytes if it was too large for a dead letter, otherwise 0. Then the payload is a part of it, and
	// Redrive routes the message again.
	Cut int `json:"cut,omitempty"`
}

// DeadLetterPage is a page of dead letters, oldest first.
type DeadLetterPage struct {
	Letters []DeadLetter `json:"letters"`
	// Next is the id after which the next page begins; 0 on the last page.
	Next uint64 `json:"next,omitempty"`
}

// DeadLetters returns all dead letters, oldest first, page by page. Letters that are added meanwhile are included. An error ends
// the sequence.
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

// DeadLetter returns one dead letter, or nil if no letter has this id.
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
	return get[DeadLetterPage](ctx, c, at("/v1/admin/dlq"), query)
}

// Redrive puts the task of a dead letter back on its subject. For a damaged user, it delivers all missed messages, and is refused while the
// user's records are damaged. A task that fails again becomes a new letter. Redriving twice does no
// harm. Redrive is not repeated after a lost answer, because the letter may be gone.
func (c *Client) Redrive(ctx context.Context, id uint64) error {
	return c.do(ctx, call{method: http.MethodPost, path: "/v1/admin/dlq/" + strconv.FormatUint(id, 10) + ":redrive"})
}

// Drop removes a dead letter permanently. The deliveries of its task are not made.
func (c *Client) Drop(ctx context.Context, id uint64) error {
	return c.do(ctx, call{method: http.MethodDelete, path: "/v1/admin/dlq/" + strconv.FormatUint(id, 10)})
}

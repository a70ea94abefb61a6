package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/fanmail/fanmail/pkg/message"
)

// shortestPoll and longestPoll limit the default pauses of WaitDone.
const (
	shortestPoll = 5 * time.Millisecond
	longestPoll  = time.Second
)

// Publish publishes a message. An idempotency key is a string that the sender uses for no other message. With a key, calls that are
// repeated within 24 hours publish the message once. An empty key means none.
func (c *Client) Publish(ctx context.Context, draft message.Draft, key string) (Receipt, error) {
	body, err := encode(NewDraft(draft))
	if err != nil {
		return Receipt{}, err
	}
	var receipt Receipt
	err = c.do(ctx, call{
		method: http.MethodPost, path: "/v1/messages", content: ContentJSON, body: body,
		key: key, idempotent: key != "", read: jsonInto(&receipt),
	})
	return receipt, err
}

// PublishBatch publishes messages, and returns one answer for each, in the same order. Each message succeeds or fails alone. With
// an idempotency key, message n has a key of its own, made of that key and n, so the caller can send the same batch again.
// After an error, the result has the answers before the error. Whether the other messages were published is unknown.
func (c *Client) PublishBatch(ctx context.Context, drafts []message.Draft, key string) ([]Answer, error) {
	lines := make([]Draft, len(drafts))
	for i, draft := range drafts {
		lines[i] = NewDraft(draft)
	}
	body, err := encodeLines(lines)
	if err != nil {
		return nil, err
	}
	var answers []Answer
	err = c.do(ctx, call{
		method: http.MethodPost, path: "/v1/messages:batch", content: ContentNDJSON, body: body,
		key: key, idempotent: key != "",
		read: func(_ http.Header, body io.Reader) error {
			var err error
			answers, err = readAnswers(body, len(drafts))
			return err
		},
	})
	return answers, err
}

// readAnswers reads the answers to a batch of count messages.
func readAnswers(r io.Reader, count int) ([]Answer, error) {
	answers := make([]Answer, 0, count)
	decoder := json.NewDecoder(bufio.NewReaderSize(r, 64<<10))
	for {
		var line AnswerLine
		switch err := decoder.Decode(&line); {
		case errors.Is(err, io.EOF) && len(answers) == count:
			return answers, nil
		case errors.Is(err, io.EOF):
			return endedEarly(answers)
		case err != nil:
			return answers, err
		case len(answers) == count:
			return answers, errors.New("there are more answers than messages")
		case line.Error != nil:
			line.Error.Line = line.Line
			answers = append(answers, Answer{Err: line.Error})
		case line.Receipt != nil:
			answers = append(answers, Answer{Receipt: *line.Receipt})
		default:
			return answers, errors.New("a line is neither a receipt nor an error")
		}
	}
}

// endedEarly returns the answers and the error of a batch with too few answers. If the last answer is an error, it is the reason.
func endedEarly(answers []Answer) ([]Answer, error) {
	if last := len(answers) - 1; last >= 0 && answers[last].Err != nil {
		return answers[:last], answers[last].Err
	}
	return answers, io.ErrUnexpectedEOF
}

// Status returns a message and the progress of its fan-out.
func (c *Client) Status(ctx context.Context, id message.ID) (Status, error) {
	return get[Status](ctx, c, at("/v1/messages/"+id.String()), nil)
}

// Estimate is Status with an estimated number of recipients. It takes the server longer.
func (c *Client) Estimate(ctx context.Context, id message.ID) (Status, error) {
	return get[Status](ctx, c, at("/v1/messages/"+id.String()), url.Values{"estimate": {"true"}})
}

// WaitDone polls the status of a message until its fan-out is done, and returns the status. poll is the pause between requests. If
// it is not positive, each pause is a fiftieth of the time waited so far, at least 5 milliseconds and at most one second. If ctx
// ends, WaitDone returns the last status and an error.
func (c *Client) WaitDone(ctx context.Context, id message.ID, poll time.Duration) (Status, error) {
	began := time.Now() //nolint:forbidigo // measures a wait, which no test controls
	for {
		status, err := c.Status(ctx, id)
		if err != nil || status.Fanout.State == message.StateDone {
			return status, err
		}
		pause := poll
		if poll <= 0 {
			pause = min(max(time.Since(began)/50, shortestPoll), longestPoll)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return status, fmt.Errorf("message %s is %s: %w", id, status.Fanout.State, context.Cause(ctx))
		}
	}
}

// encode returns v as JSON. Unlike json.Marshal, it does not escape <, > and &.
func encode(v any) ([]byte, error) { return encodeLines([]any{v}) }

// encodeLines returns values as JSON, one per line.
func encodeLines[T any](values []T) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	for i := range values {
		if err := encoder.Encode(values[i]); err != nil {
			return nil, fmt.Errorf("cannot be written as JSON: %w", err)
		}
	}
	return b.Bytes(), nil
}

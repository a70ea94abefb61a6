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

// shortestPoll and longestPoll are the pauses that WaitDone makes unless told otherwise.
const (
	shortestPoll = 5 * time.Millisecond
	longestPoll  = time.Second
)

// Publish publishes a message. With an idempotency key, which is any short string that is unique to this message among
// its sender's, the message is published once however often the call is repeated within 24 hours.
func (c *Client) Publish(ctx context.Context, draft message.Draft, key string) (Receipt, error) {
	body, err := encode(draft)
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

// PublishBatch publishes messages, each on its own, and returns the answers in their order. With an idempotency key,
// the nth message has the key of the batch followed by '#' and n, counted from 1: the same batch can be sent again. After
// an error the answers are those that came before it, and what became of the other messages is not known.
func (c *Client) PublishBatch(ctx context.Context, drafts []message.Draft, key string) ([]Answer, error) {
	body, err := encodeLines(drafts)
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

// readAnswers reads the answers to a batch of so many messages.
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

// endedEarly returns the answers and the error of a batch that was not answered to its end: the last answer may tell why.
func endedEarly(answers []Answer) ([]Answer, error) {
	if last := len(answers) - 1; last >= 0 && answers[last].Err != nil {
		return answers[:last], answers[last].Err
	}
	return answers, io.ErrUnexpectedEOF
}

// Status returns a message, and how far its fan-out is.
func (c *Client) Status(ctx context.Context, id message.ID) (Status, error) {
	var status Status
	err := c.do(ctx, call{
		method: http.MethodGet, path: "/v1/messages/" + id.String(), idempotent: true, read: jsonInto(&status),
	})
	return status, err
}

// Estimate is Status with an estimate of how many recipients there are, which takes the server longer.
func (c *Client) Estimate(ctx context.Context, id message.ID) (Status, error) {
	var status Status
	err := c.do(ctx, call{
		method: http.MethodGet, path: "/v1/messages/" + id.String(), query: url.Values{"estimate": {"true"}}, idempotent: true, read: jsonInto(&status),
	})
	return status, err
}

// WaitDone asks for the status of a message every so often until its fan-out is done, and returns it. Without a positive pause it asks
// ever more rarely, so that asking costs little beside what is waited for: each pause is a fiftieth of the time that it has waited, but 5
// milliseconds at least and a second at most.
func (c *Client) WaitDone(ctx context.Context, id message.ID, poll time.Duration) (Status, error) {
	began := time.Now() //nolint:forbidigo // a waiting time needs no injected clock
	for {
		status, err := c.Status(ctx, id)
		if err != nil || status.Fanout.State == StateDone {
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

// encode returns v as JSON. Unlike json.Marshal it leaves characters alone that matter to HTML only.
func encode(v any) ([]byte, error) { return encodeLines([]any{v}) }

// encodeLines returns values as JSON, one a line.
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

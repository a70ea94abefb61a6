package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net/http"

	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/verdict"
)

// AuditOptions selects the users that an audit checks.
type AuditOptions struct {
	// User selects one user. Sample selects that number of users at random. Without either, the audit covers all users.
	User   message.UserID `json:"user,omitempty"`
	Sample int            `json:"sample,omitempty"`
	// Repair makes the audit repair the findings that can be repaired.
	Repair bool `json:"repair,omitempty"`
}

// Finding is one error in an inbox.
type Finding struct {
	Kind verdict.Kind   `json:"kind"`
	User message.UserID `json:"user"`
	// Message is the message concerned, and From its author. Both are empty if the finding concerns no message.
	Message message.ID     `json:"message,omitzero"`
	From    message.UserID `json:"from,omitempty"`
	// Bucket and Slot are the place in the inbox. They are nil if the finding has no place.
	Bucket *uint32 `json:"bucket,omitempty"`
	Slot   *int    `json:"slot,omitempty"`
	// Detail says what is wrong.
	Detail string `json:"detail"`
	// Repaired reports whether the error was repaired. Note says why a requested repair was not made.
	Repaired bool   `json:"repaired"`
	Note     string `json:"note,omitempty"`
}

// AuditLine is one line of the answer to an audit. Exactly one field is set. The last line has a Summary or an Error.
type AuditLine struct {
	Progress *verdict.Progress `json:"progress,omitempty"`
	Finding  *Finding          `json:"finding,omitempty"`
	Summary  *verdict.Summary  `json:"summary,omitempty"`
	Error    *Problem          `json:"error,omitempty"`
}

// Audit recomputes inboxes. It returns the lines in the order in which the server sends them: progress, findings, and at the end
// the summary. An error is the last element of the sequence, and comes with an empty line. Audit is not repeated after an error.
// The server stops the audit when the loop over the lines ends.
func (c *Client) Audit(ctx context.Context, opts AuditOptions) iter.Seq2[AuditLine, error] {
	return func(yield func(AuditLine, error) bool) {
		body, err := encode(opts)
		if err != nil {
			yield(AuditLine{}, err)
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		left := false // reports whether the caller stopped reading lines
		err = c.do(ctx, call{
			method: http.MethodPost, path: "/v1/admin/audit", content: ContentJSON, body: body,
			read: func(_ http.Header, body io.Reader) error {
				err := readAudit(body, func(line AuditLine) bool {
					left = !yield(line, nil)
					return !left
				})
				if left || err == nil {
					cancel() // the rest of the answer is not needed, and may be endless
				}
				return err
			},
		})
		if err != nil && !left {
			yield(AuditLine{}, err)
		}
	}
}

// errStopped means that the caller stopped reading the audit.
var errStopped = errors.New("audit was stopped")

// readAudit calls take with each line of an audit until take returns false. Then it returns errStopped. It returns an error if the
// lines end without a summary, and the *Problem if a line has one.
func readAudit(r io.Reader, take func(AuditLine) bool) error {
	decoder := json.NewDecoder(bufio.NewReader(r))
	for {
		var line AuditLine
		switch err := decoder.Decode(&line); {
		case errors.Is(err, io.EOF):
			return io.ErrUnexpectedEOF
		case err != nil:
			return err
		case line.Error != nil:
			return line.Error
		case !take(line):
			return errStopped
		case line.Summary != nil:
			return nil
		}
	}
}

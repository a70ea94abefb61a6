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
)

// AuditOptions says what to audit.
type AuditOptions struct {
	// User selects one user. Sample selects that many users at random. Without either, the audit covers all users.
	User   message.UserID `json:"user,omitempty"`
	Sample int            `json:"sample,omitempty"`
	// Repair asks to mend what can be mended.
	Repair bool `json:"repair,omitempty"`
}

// FindingKind is what is wrong with an inbox.
type FindingKind string

// The kinds of findings. There are no others.
const (
	// FindingMissing is a message that should be in the inbox and is not.
	FindingMissing FindingKind = "missing"
	// FindingExtra is an entry that does not belong into the inbox.
	FindingExtra FindingKind = "extra"
	// FindingDifferent is an entry that does not say what the message says.
	FindingDifferent FindingKind = "different"
	// FindingDouble is a message that is in the inbox more than once.
	FindingDouble FindingKind = "double"
	// FindingOutOfOrder is a bucket whose bounds or slots are not as they have to be.
	FindingOutOfOrder FindingKind = "out_of_order"
	// FindingGapCount is a gap that has not as many messages as it counts as.
	FindingGapCount FindingKind = "gap_count"
	// FindingGapOverlap is an entry that lies in a gap.
	FindingGapOverlap FindingKind = "gap_overlap"
)

// Finding is something that is wrong with an inbox.
type Finding struct {
	Kind FindingKind    `json:"kind"`
	User message.UserID `json:"user"`
	// Message is the message that it is about, From its author. They are left out where there is none.
	Message message.ID     `json:"message,omitzero"`
	From    message.UserID `json:"from,omitempty"`
	// Bucket and Slot are where in the inbox; nil where it is not about a slot.
	Bucket *uint32 `json:"bucket,omitempty"`
	Slot   *int    `json:"slot,omitempty"`
	// Detail says what is wrong.
	Detail string `json:"detail"`
	// Repaired tells that it was repaired; if that was asked for and is not so, Note says why.
	Repaired bool   `json:"repaired"`
	Note     string `json:"note,omitempty"`
}

// AuditProgress is how far an audit is.
type AuditProgress struct {
	// Users counts those who have been audited, Of those who are going to be.
	Users int64 `json:"users"`
	Of    int64 `json:"of"`
}

// AuditSummary is what an audit came to.
type AuditSummary struct {
	// Users counts those who were audited, Entries what their inboxes hold, Expected what they have to hold.
	Users    int64 `json:"users"`
	Entries  int64 `json:"entries"`
	Expected int64 `json:"expected"`
	// Found, Repaired and Remaining count findings of each kind. There is no key where there are none.
	Found     map[FindingKind]int64 `json:"found"`
	Repaired  map[FindingKind]int64 `json:"repaired"`
	Remaining map[FindingKind]int64 `json:"remaining"`
	// InFlight, DeadLettered and Tolerated count deliveries that are no findings: on their way, given up, and so close to
	// the beginning or end of a span of an edge that either is right.
	InFlight     int64 `json:"in_flight"`
	DeadLettered int64 `json:"dead_lettered"`
	Tolerated    int64 `json:"tolerated"`
	// Rehydrating counts users whose inboxes were being rebuilt, so that it cannot be told what they lack.
	Rehydrating int64 `json:"rehydrating"`
}

// AuditLine is a line of the answer to an audit: one of its fields is set. The last line has a summary, or an error.
type AuditLine struct {
	Progress *AuditProgress `json:"progress,omitempty"`
	Finding  *Finding       `json:"finding,omitempty"`
	Summary  *AuditSummary  `json:"summary,omitempty"`
	Error    *Problem       `json:"error,omitempty"`
}

// Audit recomputes inboxes and returns, line by line as the server finds it, how far it is, what is wrong, and last a
// summary. An error ends the lines; a line never has one. The audit ends when the loop over it does.
func (c *Client) Audit(ctx context.Context, opts AuditOptions) iter.Seq2[AuditLine, error] {
	return func(yield func(AuditLine, error) bool) {
		body, err := encode(opts)
		if err != nil {
			yield(AuditLine{}, err)
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		left := false // true if the caller stopped reading lines
		err = c.do(ctx, call{
			method: http.MethodPost, path: "/v1/admin/audit", content: ContentJSON, body: body,
			read: func(_ http.Header, body io.Reader) error {
				err := readAudit(body, func(line AuditLine) bool {
					left = !yield(line, nil)
					return !left
				})
				if left || err == nil {
					cancel() // nothing more is wanted of an answer that may go on
				}
				return err
			},
		})
		if err != nil && !left {
			yield(AuditLine{}, err)
		}
	}
}

// errStopped says that the caller stopped reading the audit.
var errStopped = errors.New("audit was stopped")

// readAudit calls take with the lines of an audit until it returns false. It returns an error unless the last line has a
// summary.
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

package httpapi

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/fanmail/fanmail/internal/auth"
	"github.com/fanmail/fanmail/internal/publish"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
)

// draftBytes returns the maximum length of a draft as JSON within the limits. JSON escapes take at most six bytes per byte in a
// body (control characters), and three per byte in a user id. Attributes may contain white space. What the longest user id takes is enough
// for an identity, unless thousands of them are long URLs.
func draftBytes(l message.Limits) int {
	const (
		rest   = 8 << 10
		topics = message.MaxTopics * (3*message.MaxTopicSegments*(message.MaxSegmentBytes+1) + 4)
	)
	return 6*(l.BodyBytes+l.AttrsBytes) + l.Recipients*(3*message.MaxUserIDBytes+4) + topics + rest
}

func (s *server) publish(w *response, r *http.Request) error {
	key, err := idempotencyKey(r.Header)
	if err != nil {
		return err
	}
	var draft client.Draft
	if err := readObject(w, r, draftBytes(s.opts.Limits), &draft); err != nil {
		return err
	}
	if err := s.mayPublish(w, draft); err != nil {
		return err
	}
	result := s.Publish.Publish(r.Context(), []publish.Request{w.asked(draft, key)})[0]
	if result.Err != nil {
		return placed(result.Err, draft.To)
	}
	w.message = result.Message.ID
	return writeJSON(w, http.StatusAccepted, client.ContentJSON, receipt(result.Message))
}

// asked returns the request to publish a draft.
func (w *response) asked(draft client.Draft, key string) publish.Request {
	return publish.Request{Draft: draft.Draft(), Key: key, MayAddress: w.principal.MayAddress}
}

// placed returns an error of a draft with the place of a recipient as the client counts: users and identities in one list.
func placed(err error, to client.Recipients) error {
	var i int
	invalid, ok := errors.AsType[*message.InvalidError](err)
	if !ok {
		return err
	}
	if n, _ := fmt.Sscanf(invalid.Field, "to[%d]", &i); n != 1 {
		return err
	}
	return &message.InvalidError{Field: "to[" + strconv.Itoa(to.Place(i)) + "]", Reason: invalid.Reason}
}

func receipt(m message.Message) *client.Receipt {
	return &client.Receipt{ID: m.ID, From: m.From, Sent: client.Time{Time: m.Sent()}}
}

// idempotencyKey returns the request's idempotency key, or "" if it has none.
func idempotencyKey(h http.Header) (string, error) {
	keys := h.Values(client.IdempotencyKeyHeader)
	switch {
	case len(keys) == 0:
		return "", nil
	case len(keys) > 1 || keys[0] == "":
		return "", &message.InvalidError{
			Field: client.IdempotencyKeyHeader, Reason: "is empty or there more than once: give one key, or leave the header out",
		}
	}
	return keys[0], nil
}

func (s *server) publishBatch(w *response, r *http.Request) error {
	key, err := idempotencyKey(r.Header)
	if err != nil {
		return err
	}
	b := s.newBatch(w, r, draftBytes(s.opts.Limits))
	defer b.close()
	w.Header().Set("Content-Type", client.ContentNDJSON)
	decode := func(text []byte) (client.Draft, error) {
		draft, err := decodeDraft(text)
		if err == nil {
			err = s.mayPublish(w, draft)
		}
		return draft, err
	}
	err = eachChunk(b, true, decode, func(items []item[client.Draft]) error {
		if w.status == 0 && !slices.ContainsFunc(items, func(i item[client.Draft]) bool { return !limited(i.err) }) {
			return items[0].err // the client can send the whole batch again
		}
		requests := make([]publish.Request, 0, len(items))
		for _, i := range items {
			if i.err == nil {
				request := w.asked(i.value, key)
				request.Line = i.line
				requests = append(requests, request)
			}
		}
		results := s.Publish.Publish(r.Context(), requests)
		if w.status == 0 && len(results) > 0 && !slices.ContainsFunc(results, taken) {
			return results[0].Err // no message was published, so one problem answers the whole batch
		}
		return s.answer(w, b.stream, items, results)
	})
	switch p, refused := errors.AsType[*client.Problem](err); {
	case w.status == 0 && err != nil:
		return err
	case w.status == 0:
		w.WriteHeader(http.StatusOK) // the batch has no messages
	case refused:
		// The answer has begun, so its last line holds the error that ended the batch.
		line := item[client.Draft]{line: p.Line, err: err}
		_ = s.answer(w, b.stream, []item[client.Draft]{line}, nil) // an error means that the client is gone
	case err != nil:
		_ = s.problem(w, err) // records it
	}
	return nil
}

func decodeDraft(text []byte) (draft client.Draft, err error) {
	err = decodeObject(text, &draft, "the line")
	return draft, err
}

// limited reports whether an error is the rate limit of a sender.
func limited(err error) bool {
	p, ok := errors.AsType[*client.Problem](err)
	return ok && p.Type == client.ProblemRateLimited
}

func taken(r publish.Result) bool {
	return !errors.Is(r.Err, publish.ErrBusy) && !errors.Is(r.Err, publish.ErrAhead)
}

// answer writes one line for each item. The results belong to the items without an error, in the same order.
func (s *server) answer(w *response, to *stream, items []item[client.Draft], results []publish.Result) error {
	var lines bytes.Buffer
	encoder := newEncoder(&lines)
	for _, i := range items {
		err := i.err
		var answer client.AnswerLine
		if err == nil {
			result := results[0]
			results = results[1:]
			err, answer.Receipt = placed(result.Err, i.value.To), receipt(result.Message)
		}
		if err != nil {
			p := *s.problem(w, err)
			p.Line = 0 // the line's number is next to the problem
			answer = client.AnswerLine{Line: i.line, Error: &p}
		}
		if err := encoder.Encode(answer); err != nil {
			return err
		}
	}
	if _, err := to.Write(lines.Bytes()); err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	return nil
}

func (s *server) status(w *response, r *http.Request) error {
	id, err := message.ParseID(r.PathValue("id"))
	if err != nil {
		return err
	}
	estimate, err := queryFlag(r.URL.Query(), "estimate")
	if err != nil {
		return err
	}
	parts, err := queryFlag(r.URL.Query(), "partitions")
	if err != nil {
		return err
	}
	status, err := s.Reporter.Status(r.Context(), id)
	if err != nil {
		return err
	}
	m := status.Message
	sees, err := s.sees(w, r, m)
	operates := w.principal.Has(auth.Operate)
	switch {
	case err != nil:
		return err
	case !sees && !operates:
		return message.ErrNotFound // other clients must not learn that the message exists
	case !sees:
		m.Body, m.ContentType, m.Attrs = "", "", nil
	}
	all := operates || w.sent(m)
	if parts && !all {
		return refuse(client.ProblemForbidden, "partitions", "only the sender and operators may see the partitions: leave the parameter out")
	}
	audience := int64(0)
	if estimate {
		if audience, err = s.Reporter.Estimate(r.Context(), m); err != nil {
			return err
		}
	}
	neverSeen, blocked := int64(0), int64(0)
	if all { // no recipient learns that others block the author
		blocked = int64(m.Blocked)
	}
	if status.State == message.StateDone && status.Skipped > blocked && len(m.To) > 0 && all { // no recipient learns who else was never here
		if neverSeen, err = s.Reporter.NeverSeen(r.Context(), m); err != nil {
			return err
		}
	}
	var until, moved *client.Time
	if !status.Until.IsZero() {
		until = &client.Time{Time: status.Until}
	}
	if !parts {
		status.Scans = nil
	} else if !status.Moved.IsZero() {
		moved = &client.Time{Time: status.Moved}
	}
	return writeJSON(w, http.StatusOK, client.ContentJSON, client.Status{
		ID: m.ID, From: m.From, Sent: client.Time{Time: m.Sent()}, To: m.To, Audience: m.Audience, Topics: m.Topics,
		Body: m.Body, ContentType: m.ContentType, Attrs: m.Attrs,
		Fanout: client.Fanout{
			State: status.State, Lane: event.Lane(status.Lane), WaitingFor: status.WaitingFor, Until: until, About: until != nil,
			Recipients: status.Delivered + status.Skipped,
			Delivered:  status.Delivered, Skipped: status.Skipped, NeverSeen: neverSeen, Blocked: blocked, GivenUp: status.GivenUp, Audience: audience,
			Partitions: partitions(status.Scans), Moved: moved,
		},
	})
}

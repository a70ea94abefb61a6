package httpapi

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/fanmail/fanmail/internal/inbox"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

func (s *server) inbox(w *response, r *http.Request, user message.UserID) error {
	query := r.URL.Query()
	limit, err := s.pageSize(query)
	if err != nil {
		return err
	}
	request := inbox.Request{Before: query.Get("before"), Limit: limit}
	if query.Has("before") && request.Before == "" {
		return &message.InvalidError{Field: "before", Reason: "is empty: leave it out for the newest messages"}
	}
	if request.Peek, err = queryFlag(query, "peek"); err != nil {
		return err
	}
	request.Peek = request.Peek || r.Method == http.MethodHead
	if request.Since, err = queryTime(query, "since"); err != nil {
		return err
	}
	if request.Until, err = queryTime(query, "until"); err != nil {
		return err
	}
	if request.Filter, err = queryFilter(query); err != nil {
		return err
	}
	page, err := s.Inbox.Read(r.Context(), user, request)
	if err != nil {
		return err
	}
	w.Header().Set(client.BucketsReadHeader, strconv.Itoa(page.Buckets))
	w.Header().Set(client.MessagesReadHeader, strconv.Itoa(page.Messages))
	held := int64(0)
	for _, e := range page.Entries {
		held += int64(e.Size())
	}
	w.memory.keep(held)
	return writePage(w, page)
}

// writePage answers with a page. It encodes one message at a time, so that the text of the whole answer is never in memory.
func writePage(w *response, page inbox.Page) error {
	b := takeBuffer()
	defer returnBuffer(b)
	encoder := newEncoder(b)
	if err := encoder.Encode(client.InboxPage{
		Messages: []client.InboxMessage{}, Next: client.Cursor(page.Next), Total: page.Total, Unread: page.Unread, Complete: page.Complete,
	}); err != nil {
		return err
	}
	before, after, _ := strings.Cut(b.String(), "[]")
	w.Header().Set("Content-Type", client.ContentJSON)
	w.WriteHeader(http.StatusOK)
	text := before + "["
	for _, e := range page.Entries {
		b.Reset()
		b.WriteString(text)
		if err := encoder.Encode(client.InboxMessage{
			ID: e.ID, From: e.From, Sent: client.Time{Time: e.Sent()}, To: e.To, ToCount: e.ToCount, Audience: e.Audience, Topics: e.Topics,
			Body: e.Body, ContentType: e.ContentType, Attrs: e.Attrs,
		}); err != nil {
			panic(fmt.Errorf("encode message %s: %w", e.ID, err)) // the answer has begun
		}
		b.Truncate(b.Len() - 1) // the line break
		if _, err := w.Write(b.Bytes()); err != nil {
			return nil
		}
		text = ","
	}
	if len(page.Entries) > 0 {
		text = ""
	}
	_, _ = io.WriteString(w, text+"]"+after)
	return nil
}

// countsBytes has room for the longest ids, each byte escaped.
const countsBytes = client.MaxCountedUsers * (6*message.MaxUserIDBytes + 8)

func (s *server) counts(w *response, r *http.Request) error {
	var body client.CountsRequest
	if err := readObject(w, r, countsBytes, &body); err != nil {
		return err
	}
	if n := len(body.Users); n > client.MaxCountedUsers {
		return &message.InvalidError{Field: "users", Reason: fmt.Sprintf("names %d users: name at most %d", n, client.MaxCountedUsers)}
	}
	for i, user := range body.Users {
		field := fmt.Sprintf("users[%d]", i)
		if err := user.Validate(field); err != nil {
			return err
		}
		if err := w.mayRead(field, user); err != nil {
			return err
		}
	}
	counted, err := s.Inbox.Counts(r.Context(), body.Users)
	if err != nil {
		return err
	}
	answer := client.InboxCounts{Counts: make([]client.InboxCount, len(counted))}
	for i, c := range counted {
		answer.Counts[i] = client.InboxCount{User: c.User, Total: c.Total, Unread: c.Unread, Complete: c.Complete}
	}
	return writeJSON(w, http.StatusOK, client.ContentJSON, answer)
}

func (s *server) countBy(w *response, r *http.Request, user message.UserID) error {
	values, err := s.Inbox.CountBy(r.Context(), user, r.URL.Query().Get("by"))
	if err != nil {
		return err
	}
	answer := client.ValueCounts{Counts: make([]client.ValueCount, len(values.Counts)), Counted: values.Counted, Complete: values.Complete}
	for i, c := range values.Counts {
		if at, ok := c.Value.(time.Time); ok {
			c.Value = client.Time{Time: at}
		}
		answer.Counts[i] = client.ValueCount(c)
	}
	w.Header().Set(client.BucketsReadHeader, strconv.Itoa(values.Buckets))
	w.Header().Set(client.MessagesReadHeader, strconv.Itoa(values.Messages))
	return writeJSON(w, http.StatusOK, client.ContentJSON, answer)
}

// queryFilter returns the conditions of a page.
func queryFilter(query url.Values) (f inbox.Filter, err error) {
	f.Attrs, f.From = query["attr"], message.UserID(query.Get("from"))
	if query.Has("from") && f.From == "" {
		return f, &message.InvalidError{Field: "from", Reason: "is empty: leave it out for all authors"}
	}
	f.Unread, err = queryFlag(query, "unread")
	return f, err
}

func (s *server) markRead(w *response, r *http.Request, user message.UserID) error {
	var body struct {
		UpTo string `json:"up_to"`
	}
	if err := readObject(w, r, smallBytes, &body); err != nil {
		return err
	}
	upTo, err := message.ParseID(body.UpTo)
	if err != nil {
		return &message.InvalidError{Field: "up_to", Reason: "is not the id of a message: give one from a page of the inbox"}
	}
	return done(w, s.Inbox.MarkRead(r.Context(), user, upTo))
}

func (s *server) purge(w *response, r *http.Request, user message.UserID) error {
	var body struct {
		Until  string `json:"until"`
		DryRun bool   `json:"dry_run"`
	}
	if err := readObject(w, r, smallBytes, &body); err != nil {
		return err
	}
	until, err := parseTime("until", body.Until)
	if err != nil {
		return err
	}
	n, err := s.Inbox.Purge(r.Context(), user, until, body.DryRun)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, client.ContentJSON, client.Purged{Purged: n})
}

func (s *server) deleteEntry(w *response, r *http.Request, user message.UserID) error {
	id, err := message.ParseID(r.PathValue("id"))
	if err != nil {
		return err
	}
	return done(w, s.Inbox.Delete(r.Context(), user, id))
}

package httpapi

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fanmail/fanmail/internal/inbox"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/flag"
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
	if request.All() {
		if same, err := s.unchanged(w, r, user, request.Peek); same || err != nil {
			return err
		}
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
	setTag(w, page.Tag)
	return writePage(w, page)
}

// setTag sets the ETag of an answer, if it has one.
func setTag(w http.ResponseWriter, tag string) {
	if tag != "" {
		w.Header().Set("ETag", strconv.Quote(tag))
	}
}

// unchanged answers 304 if the client has the answer already, and reports whether it did.
func (s *server) unchanged(w *response, r *http.Request, user message.UserID, peek bool) (bool, error) {
	known := r.Header.Values("If-None-Match")
	if len(known) == 0 {
		return false, nil
	}
	tag, err := s.Inbox.Tag(r.Context(), user, peek)
	if err != nil || tag == "" {
		return false, err
	}
	for one := range strings.SplitSeq(strings.Join(known, ","), ",") {
		if strings.TrimPrefix(strings.TrimSpace(one), "W/") == strconv.Quote(tag) {
			setTag(w, tag)
			w.WriteHeader(http.StatusNotModified)
			return true, nil
		}
	}
	return false, nil
}

// writePage answers with a page. It encodes one message at a time, so that the text of the whole answer is never in memory.
func writePage(w *response, page inbox.Page) error {
	b := takeBuffer()
	defer returnBuffer(b)
	encoder := newEncoder(b)
	head := client.InboxPage{
		Messages: []client.InboxMessage{}, Next: client.Cursor(page.Next), Cursor: page.Cursor, Tally: client.Tally(page.Tally), Complete: page.Complete,
		ReadUpTo: idOrNil(page.ReadUpTo), Version: page.Version,
	}
	if err := encoder.Encode(head); err != nil {
		return err
	}
	before, after, _ := strings.Cut(b.String(), "[]")
	w.Header().Set("Content-Type", client.ContentJSON)
	w.WriteHeader(http.StatusOK)
	text := before + "["
	for _, e := range page.Entries {
		b.Reset()
		b.WriteString(text)
		if err := encoder.Encode(wireMessage(e)); err != nil {
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

func wireMessage(m inbox.Message) client.InboxMessage {
	return client.InboxMessage{
		ID: m.ID, From: m.From, Sent: client.Time{Time: m.Sent()}, To: m.To, ToCount: m.ToCount, Audience: m.Audience, Topics: m.Topics,
		Body: m.Body, ContentType: m.ContentType, Attrs: m.Attrs, Read: m.Read, Archived: m.Archived,
	}
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
		answer.Counts[i] = client.InboxCount{User: c.User, Tally: client.Tally(c.Tally), Complete: c.Complete}
	}
	return writeJSON(w, http.StatusOK, client.ContentJSON, answer)
}

// countInbox counts an inbox as a whole, or by a field.
func (s *server) countInbox(w *response, r *http.Request, user message.UserID) error {
	if r.URL.Query().Has("by") {
		return s.countBy(w, r, user)
	}
	if same, err := s.unchanged(w, r, user, true); same || err != nil {
		return err
	}
	count, tag, err := s.Inbox.Count(r.Context(), user)
	if err != nil {
		return err
	}
	setTag(w, tag)
	return writeJSON(w, http.StatusOK, client.ContentJSON, client.InboxCount{Tally: client.Tally(count.Tally), Complete: count.Complete})
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
	switch archived := client.Archived(query.Get("archived")); {
	case !query.Has("archived") || archived == client.ArchivedOut:
	case archived == client.ArchivedOnly:
		f.Archived = inbox.ArchivedOnly
	case archived == client.ArchivedToo:
		f.Archived = inbox.ArchivedToo
	default:
		return f, &message.InvalidError{Field: "archived", Reason: "is none of false, true and all"}
	}
	f.Unread, err = queryFlag(query, "unread")
	return f, err
}

func (s *server) markRead(w *response, r *http.Request, user message.UserID) error {
	var body struct {
		UpTo   string `json:"up_to"`
		All    bool   `json:"all"`
		Cursor string `json:"cursor"`
	}
	if err := readObject(w, r, smallBytes, &body); err != nil {
		return err
	}
	switch {
	case body.All && body.UpTo != "":
		return &message.InvalidError{Field: "up_to", Reason: "is there, and so is all: give one of them"}
	case body.All:
		return done(w, s.Inbox.MarkAllRead(r.Context(), user, body.Cursor))
	case body.Cursor != "":
		return &message.InvalidError{Field: "cursor", Reason: "is there without all: give all with it, or leave it out"}
	}
	upTo, err := message.ParseID(body.UpTo)
	if err != nil {
		return &message.InvalidError{Field: "up_to", Reason: "is not the id of a message: give one from a page of the inbox"}
	}
	return done(w, s.Inbox.MarkRead(r.Context(), user, upTo))
}

func (s *server) markSeen(w *response, r *http.Request, user message.UserID) error {
	var body client.SeenMark
	if err := readObject(w, r, smallBytes, &body); err != nil {
		return err
	}
	return done(w, s.Inbox.MarkSeen(r.Context(), user, body.Cursor))
}

// marksBytes has room for the ids of marks.
const marksBytes = client.MaxMarks*64 + 1024

func (s *server) mark(w *response, r *http.Request, user message.UserID) error {
	var body struct {
		IDs      []string `json:"ids"`
		Read     *bool    `json:"read"`
		Archived *bool    `json:"archived"`
	}
	if err := readObject(w, r, marksBytes, &body); err != nil {
		return err
	}
	if n := len(body.IDs); n == 0 || n > client.MaxMarks {
		return &message.InvalidError{Field: "ids", Reason: fmt.Sprintf("names %d messages: name 1 to %d", n, client.MaxMarks)}
	}
	if body.Read == nil && body.Archived == nil {
		return &message.InvalidError{Field: "read", Reason: "is missing, and so is archived: give one of them, true or false"}
	}
	ids := make([]message.ID, 0, len(body.IDs))
	for i, text := range body.IDs {
		id, err := message.ParseID(text)
		if err != nil {
			return &message.InvalidError{Field: fmt.Sprintf("ids[%d]", i), Reason: "is not the id of a message: give one from a page of the inbox"}
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	marked, err := s.Inbox.Mark(r.Context(), user, ids, flag.Change{Read: body.Read, Archived: body.Archived})
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, client.ContentJSON, client.Marked{Changed: marked.Changed, Missing: append([]message.ID{}, marked.Missing...)})
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

package httpapi_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/httpapi"
	"github.com/fanmail/fanmail/internal/live"
	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/internal/wake"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

// events is an open stream of a test.
type events struct {
	answer *http.Response
	lines  *bufio.Reader
}

// open opens a stream of bob's inbox.
func open(t *testing.T, server *httptest.Server, cursor string) *events {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/v1/users/bob/inbox/events", nil)
	require.NoError(t, err)
	if cursor != "" {
		r.Header.Set("Last-Event-ID", cursor)
	}
	answer, err := server.Client().Do(r)
	require.NoError(t, err)
	t.Cleanup(func() { _ = answer.Body.Close() })
	return &events{answer: answer, lines: bufio.NewReader(answer.Body)}
}

// line returns the next line that begins so, without the beginning. It passes over others.
func (e *events) line(t *testing.T, beginning string) string {
	t.Helper()
	for {
		line, err := e.lines.ReadString('\n')
		require.NoError(t, err)
		if rest, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), beginning); ok {
			return rest
		}
	}
}

// next returns the next frame, whose cursor is also its id.
func (e *events) next(t *testing.T) (f client.Frame) {
	t.Helper()
	require.Equal(t, "frame", e.line(t, "event: "))
	id := e.line(t, "id: ")
	require.NoError(t, json.Unmarshal([]byte(e.line(t, "data: ")), &f))
	require.Equal(t, f.Cursor, id)
	return f
}

func frameIDs(f client.Frame) (ids []message.ID) {
	for _, m := range f.Messages {
		ids = append(ids, m.ID)
	}
	return ids
}

func TestEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	w.see(t, "bob")
	w.deliver(t, "bob", 1, 2)
	server := httptest.NewServer(w.handler)
	t.Cleanup(server.Close)
	e := open(t, server, "")
	require.Equal(t, "text/event-stream", e.answer.Header.Get("Content-Type"))
	require.Equal(t, "no-store, no-transform", e.answer.Header.Get("Cache-Control"))
	first := e.next(t)
	require.True(t, first.Reset)
	require.Equal(t, []message.ID{messagetest.ID(2), messagetest.ID(1)}, frameIDs(first))
	require.Equal(t, client.Tally{Total: 2, Unread: 2, Unseen: 2}, first.Tally)

	w.deliver(t, "bob", 3, 3)
	second := e.next(t)
	require.Equal(t, []message.ID{messagetest.ID(3)}, frameIDs(second))
	require.Equal(t, []int64{3, 0, 0, 0, 0}, second.Version)
	w.must(t, http.StatusNoContent, http.MethodPost, "/v1/users/bob/inbox/read", `{"all":true,"cursor":"`+first.Cursor+`"}`)
	w.hub.Changed("bob")
	third := e.next(t)
	require.Len(t, third.Flags, 3)
	require.Equal(t, int64(1), third.Unread, "the third was not known then")
	require.NoError(t, e.answer.Body.Close())

	w.must(t, http.StatusNoContent, http.MethodDelete, "/v1/users/bob/inbox/"+messagetest.ID(1).String(), "")
	e = open(t, server, second.Cursor)
	again := e.next(t)
	require.False(t, again.Reset)
	require.Equal(t, []message.ID{messagetest.ID(1)}, again.Gone)
	require.Len(t, again.Flags, 2)

	w.services.Live.Drain()
	require.NotEmpty(t, e.line(t, "retry: "))
	_, err := io.ReadAll(e.lines)
	require.NoError(t, err, "the stream ends")
}

// A stream that has nothing to say sends comments. It counts neither as a request in progress nor as a long one.
func TestEventsHeartbeat(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{options: func(o *httpapi.Options) { o.StreamHeartbeat = time.Millisecond }})
	server := httptest.NewServer(w.handler)
	t.Cleanup(server.Close)
	e := open(t, server, "")
	e.next(t)
	require.Empty(t, e.line(t, ":"))
	head := w.ask(t, http.MethodHead, "/v1/users/bob/inbox/events", "")
	require.Equal(t, http.StatusOK, head.Code)
	require.Empty(t, head.Body.String())
}

func TestEventsAreLimited(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	server := httptest.NewServer(w.handler)
	t.Cleanup(server.Close)
	for range 2 {
		open(t, server, "").next(t)
	}
	answer := w.ask(t, http.MethodGet, "/v1/users/bob/inbox/changes", "")
	require.Equal(t, http.StatusTooManyRequests, answer.Code)
	require.NotEmpty(t, answer.Header().Get("Retry-After"))
	for _, other := range []message.UserID{"cy", "dee"} {
		st, err := w.services.Live.Open(other, "", true)
		require.NoError(t, err)
		defer st.Close()
	}
	require.Equal(t, client.ProblemBusy, problem(t, w.ask(t, http.MethodGet, "/v1/users/ann/inbox/changes", "")).Type)
}

// gone is a connection whose client is gone.
type gone struct{ *httptest.ResponseRecorder }

// Write implements io.Writer.
func (gone) Write([]byte) (int, error) { return 0, net.ErrClosed }

// A client that is gone before its first frame leaves no memory reserved.
func TestEventsGiveMemoryBack(t *testing.T) {
	t.Parallel()
	memory := httpapi.NewMemory(live.LookMemory)
	w := newWorld(t, settings{services: func(s *httpapi.Services) {
		s.Live = live.New(s.Inbox, wake.New(wake.Options{}), live.Options{Max: 1, PerUser: 1, Reserve: memory.Hold})
	}})
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/users/bob/inbox/events", nil)
	w.handler.ServeHTTP(gone{httptest.NewRecorder()}, r)
	soon, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	release, err := memory.Reserve(soon, live.LookMemory)
	require.NoError(t, err)
	release()
}

func TestChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	w.see(t, "bob")
	changes := func(query string) (f client.Frame) {
		require.NoError(t, json.Unmarshal([]byte(w.must(t, http.StatusOK, http.MethodGet, "/v1/users/bob/inbox/changes"+query, "")), &f))
		return f
	}
	first := changes("?wait=60s")
	require.True(t, first.Reset, "a reset does not wait")
	same := changes("?cursor=" + first.Cursor)
	require.Equal(t, first.Cursor, same.Cursor)
	require.Empty(t, same.Messages)
	w.deliver(t, "bob", 1, 1)
	require.Len(t, changes("?wait=60s&cursor="+first.Cursor).Messages, 1, "it is there already")
	waited := make(chan client.Frame)
	second := changes("?cursor=" + first.Cursor)
	go func() { waited <- changes("?wait=60s&cursor=" + second.Cursor) }()
	w.deliver(t, "bob", 2, 2) // before it looks, or while it waits
	require.Len(t, (<-waited).Messages, 1)
	third := changes("?cursor=" + second.Cursor)
	require.Equal(t, third.Cursor, changes("?wait=1ms&cursor="+third.Cursor).Cursor, "after the wait, a frame without changes")
	for query, field := range map[string]string{"?wait=61s": "wait", "?cursor=x": "cursor", "?peek=x": "peek"} {
		p := problem(t, w.ask(t, http.MethodGet, "/v1/users/bob/inbox/changes"+query, ""))
		require.Equal(t, field, p.Field, query)
	}
	p := problem(t, w.ask(t, http.MethodGet, "/v1/users/cy/inbox/changes?cursor="+second.Cursor, ""))
	require.Equal(t, client.ProblemInvalid, p.Type, "it is of another inbox")
}

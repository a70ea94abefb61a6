package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

// frameEvent returns an event with a frame that has a cursor and a number of messages in the inbox.
func frameEvent(cursor string, total int) string {
	return fmt.Sprintf("event: frame\nid: %s\ndata: {\"total\":%d,\"version\":[%d],\"cursor\":%q}\n\n", cursor, total, total, cursor)
}

// connection is what a scripted server does with a request: it fails, or it answers and then says nothing more or ends the answer.
type connection struct {
	status      int // 0 means 200
	retryAfter  string
	contentType string // empty means that of events
	body        string
	silent      bool // after the body, or instead of an answer without a status
	err         error
}

// server is a transport with a script. After the script it repeats the last connection.
type server struct {
	script   []connection
	requests []*http.Request
	times    []time.Time
}

// RoundTrip implements http.RoundTripper.
func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	c := s.script[min(len(s.requests), len(s.script)-1)]
	s.requests, s.times = append(s.requests, r), append(s.times, time.Now())
	switch {
	case c.err != nil:
		return nil, c.err
	case c.silent && c.status == 0 && c.body == "":
		<-r.Context().Done()
		return nil, r.Context().Err()
	case c.status == 0:
		c.status = http.StatusOK
	}
	header := http.Header{"Content-Type": {"text/event-stream"}}
	if c.contentType != "" {
		header.Set("Content-Type", c.contentType)
	}
	if c.retryAfter != "" {
		header.Set("Retry-After", c.retryAfter)
	}
	body, w := io.Pipe()
	go func() {
		if _, err := io.WriteString(w, c.body); err == nil && c.silent {
			<-r.Context().Done()
		}
		_ = w.Close()
	}()
	context.AfterFunc(r.Context(), func() { _ = w.CloseWithError(r.Context().Err()) })
	return &http.Response{StatusCode: c.status, Header: header, Body: body, Request: r}, nil
}

// client returns a client of the server.
func (s *server) client(t *testing.T) *client.Client {
	t.Helper()
	c, err := client.New("http://fanmail", client.Options{HTTP: &http.Client{Transport: s}})
	require.NoError(t, err)
	return c
}

// read returns the first frames of the events of ben from a cursor, and the error that ends them before.
func read(ctx context.Context, c *client.Client, cursor string, frames int) (cursors []string, err error) {
	for frame, err := range c.Events(ctx, "ben", cursor) {
		if err != nil {
			return cursors, err
		}
		if cursors = append(cursors, frame.Cursor); len(cursors) == frames {
			break
		}
	}
	return cursors, nil
}

// A stream arrives byte by byte, has comments, events and fields that the client does not know, and is cut off. The next one goes on where it ended.
func TestEvents(t *testing.T) {
	t.Parallel()
	const first = ": hello\nretry: 1\n\nevent: weather\nid: c9\ndata: rain\n\nevent: frame\r\nid: c1\r\nnew: field\r\ndata: {\"messages\":[{\"body\":\"x\"}],\r\n" +
		"data: \"total\":1,\"version\":[1],\"cursor\":\"c1\",\"reset\":true,\"new\":{}}\r\n\r\nevent: frame\ndata: {\"total\":2"
	asked := make(chan [3]string, 3)
	streams := []string{first, frameEvent("c1", 1) + frameEvent("c2", 2) + frameEvent("c2", 1), frameEvent("c2", 1) + frameEvent("c3", 0)}
	next := 0
	c := fakeServer(t, func(w http.ResponseWriter, r *http.Request) {
		asked <- [3]string{r.URL.String(), r.Header.Get("Accept"), r.Header.Get("Last-Event-ID")}
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		stream := streams[next]
		next++
		for i := range stream {
			_, _ = io.WriteString(w, stream[i:i+1])
			_ = http.NewResponseController(w).Flush()
		}
		if next < len(streams) {
			panic(http.ErrAbortHandler)
		}
		<-r.Context().Done() // the client leaves
	})
	var got []client.Frame
	for frame, err := range c.Events(t.Context(), "ben", "", client.Peek()) {
		require.NoError(t, err)
		if got = append(got, frame); frame.Cursor == "c3" {
			break
		}
	}
	require.Len(t, got, 4, "a frame that repeats the last one is left out, and one with other counts is not")
	require.True(t, got[0].Reset)
	require.Equal(t, "x", got[0].Messages[0].Body)
	require.Equal(t, client.Frame{Tally: client.Tally{Total: 2}, Version: []int64{2}, Cursor: "c2"}, got[1])
	require.Equal(t, client.Frame{Tally: client.Tally{Total: 1}, Version: []int64{1}, Cursor: "c2"}, got[2])
	for _, cursor := range []string{"", "c1", "c2"} {
		require.Equal(t, [3]string{"/v1/users/ben/inbox/events?peek=true", "text/event-stream", cursor}, <-asked)
	}
}

// Whatever ends a connection, the client connects again after a pause, and goes on after its last frame.
func TestEventsConnectAgain(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		lost        connection
		least, most time.Duration // from one connection to the next
	}{
		"end":                    {connection{body: frameEvent("c1", 1)}, 100 * time.Millisecond, 150 * time.Millisecond},
		"retry":                  {connection{body: "retry: 3000\n\n" + frameEvent("c1", 1)}, 3 * time.Second, 4500 * time.Millisecond},
		"retry at the end":       {connection{body: frameEvent("c1", 1) + "retry: 9000\n\n"}, 9 * time.Second, 11500 * time.Millisecond},
		"no frame":               {connection{body: ": hello\n"}, 200 * time.Millisecond, 300 * time.Millisecond},
		"silence":                {connection{body: frameEvent("c1", 1), silent: true}, 60*time.Second + 100*time.Millisecond, 60*time.Second + 150*time.Millisecond},
		"silence in an event":    {connection{body: frameEvent("c1", 1) + "data:", silent: true}, 60 * time.Second, 61 * time.Second},
		"no answer":              {connection{silent: true}, 60 * time.Second, 61 * time.Second},
		"broken":                 {connection{err: io.ErrUnexpectedEOF}, 200 * time.Millisecond, 300 * time.Millisecond},
		"unavailable":            {connection{status: 503, retryAfter: "7"}, 7 * time.Second, 9500 * time.Millisecond},
		"rate limit":             {connection{status: 429, retryAfter: "3600"}, time.Hour, time.Hour + 2500*time.Millisecond},
		"time-out":               {connection{status: 408}, 200 * time.Millisecond, 300 * time.Millisecond},
		"failure of the gateway": {connection{status: 502, contentType: "text/html"}, 200 * time.Millisecond, 300 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &server{script: []connection{test.lost, {body: frameEvent("c2", 2), silent: true}}}
				want, last := []string{"c2"}, "c0"
				if strings.Contains(test.lost.body, "c1") {
					want, last = []string{"c1", "c2"}, "c1"
				}
				got, err := read(t.Context(), s.client(t), "c0", len(want))
				require.NoError(t, err)
				require.Equal(t, want, got)
				require.Len(t, s.requests, 2)
				require.Equal(t, "c0", s.requests[0].Header.Get("Last-Event-ID"))
				require.Equal(t, last, s.requests[1].Header.Get("Last-Event-ID"))
				pause := s.times[1].Sub(s.times[0])
				require.GreaterOrEqual(t, pause, test.least)
				require.LessOrEqual(t, pause, test.most)
			})
		})
	}
}

// Without an answer the pauses grow to 5 to 7.5 seconds, and the client tries until its context ends. A connection makes them short again.
func TestEventsPauses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		away := connection{err: errors.New("away")}
		s := &server{script: []connection{away, away, away, away, away, away, away, {body: frameEvent("c1", 1)}, away, away, {silent: true}}}
		ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Second, errors.New("enough"))
		defer cancel()
		began := time.Now()
		got, err := read(ctx, s.client(t), "", 2)
		require.EqualError(t, err, "enough")
		require.Equal(t, 50*time.Second, time.Since(began))
		require.Equal(t, []string{"c1"}, got)
		for i, least := range []float64{0.2, 0.4, 0.8, 1.6, 3.2, 5, 5, 0.1, 0.2, 0.4} {
			pause := s.times[i+1].Sub(s.times[i]).Seconds()
			require.GreaterOrEqual(t, pause, least, i)
			require.LessOrEqual(t, pause, 1.5*least, i)
		}
	})
}

// Heartbeats keep a connection, and so does a loop that takes long.
func TestEventsKeepAConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		requests := 0
		c, err := client.New("http://fanmail", client.Options{HTTP: &http.Client{Transport: transport(func(r2 *http.Request) (*http.Response, error) {
			requests++
			context.AfterFunc(r2.Context(), func() { _ = w.CloseWithError(r2.Context().Err()) })
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: r}, nil
		})}})
		require.NoError(t, err)
		var wg sync.WaitGroup
		wg.Go(func() {
			for i := 0; ; i++ {
				_, err := io.WriteString(w, frameEvent(fmt.Sprint("c", i), i))
				for range 10 {
					time.Sleep(59 * time.Second)
					_, err = io.WriteString(w, ": alive\n")
				}
				if err != nil {
					return
				}
			}
		})
		frames := 0
		for _, err := range c.Events(t.Context(), "ben", "") {
			require.NoError(t, err)
			time.Sleep(time.Hour)
			if frames++; frames == 3 {
				break
			}
		}
		wg.Wait()
		require.Equal(t, 1, requests)
	})
}

// transport is a function that sends requests.
type transport func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// An error that would come again ends the events, and is their last element.
func TestEventsEnd(t *testing.T) {
	t.Parallel()
	large := "data: " + strings.Repeat("x", client.MaxEventBytes/2) + "\n"
	for name, test := range map[string]struct {
		answer connection
		want   string
	}{
		"unauthorized":   {connection{status: 401}, "(401 Unauthorized)"},
		"forbidden":      {connection{status: 403}, "(403 Forbidden)"},
		"never seen":     {connection{status: 404}, "(404 Not Found)"},
		"cursor":         {connection{status: 422}, "(422 Unprocessable Entity)"},
		"a page":         {connection{body: "<html>", contentType: "text/html"}, `does not answer as a Fanmail server does: the content type is "text/html"`},
		"not JSON":       {connection{body: "event: frame\ndata: {\n\n", silent: true}, "does not answer as a Fanmail server does: unexpected end of JSON input"},
		"a large event":  {connection{body: large + large + large, silent: true}, "an event is too large"},
		"a large line":   {connection{body: strings.Repeat(":", client.MaxEventBytes+2), silent: true}, "an event is too large"},
		"an unknown one": {connection{body: "event: other\n" + large + large + large, silent: true}, "an event is too large"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &server{script: []connection{{body: frameEvent("c1", 1)}, test.answer}}
			var errs []error
			frames := 0
			for _, err := range s.client(t).Events(t.Context(), "ben", "") {
				if frames++; err != nil {
					errs = append(errs, err)
				}
			}
			require.Equal(t, 2, frames)
			require.Len(t, errs, 1)
			require.ErrorContains(t, errs[0], test.want)
			require.Len(t, s.requests, 2)
		})
	}
	for _, err := range connect(t, "http://127.0.0.1:1").Events(t.Context(), "", "") {
		require.ErrorAs(t, err, new(*message.InvalidError))
	}
	c, err := client.New("http://127.0.0.1:1", client.Options{Token: func(context.Context) (string, error) { return "", errors.New("no token") }})
	require.NoError(t, err)
	_, err = read(t.Context(), c, "", 1)
	require.ErrorContains(t, err, "no token")
}

func TestChanges(t *testing.T) {
	t.Parallel()
	c := fakeServer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.String() == "/v1/users/ben/inbox/changes?cursor=c%2B1&peek=true&wait=30s" {
			_, _ = io.WriteString(w, `{"gone":["019b7ca9-8c88-7000-8000-000000000000"],"flags":[{"id":"019b7ca9-8c88-7000-8000-000000000001","read":true,"archived":false}],`+
				`"total":1,"unread":0,"unseen":0,"archived":0,"complete":true,"version":[3,1],"cursor":"c2"}`)
			return
		}
		answerProblem(w, http.StatusUnprocessableEntity, client.ProblemInvalid)
	})
	frame, err := c.Changes(t.Context(), "ben", "c+1", 30*time.Second, client.Peek())
	require.NoError(t, err)
	id, err := message.ParseID("019b7ca9-8c88-7000-8000-000000000001")
	require.NoError(t, err)
	require.Equal(t, []client.MessageState{{ID: id, Read: true}}, frame.Flags)
	require.Len(t, frame.Gone, 1)
	require.True(t, frame.Complete)
	require.Equal(t, "c2", frame.Cursor)
	_, err = c.Changes(t.Context(), "ben", "", 0)
	require.ErrorContains(t, err, "(422 Unprocessable Entity)")
	for _, wait := range []time.Duration{-1, client.MaxChangesWait + 1} {
		_, err = c.Changes(t.Context(), "ben", "", wait)
		require.ErrorContains(t, err, "give 0s to 60s")
	}
}

func FuzzEvents(f *testing.F) {
	for _, seed := range []string{
		"data: a\n\n", "data:a\r\rdata\r\n\r\n", "event: x\ndata: a\ndata:  b\n\n\n", ":\n\nevent: y\n\ndata: c\n\n", "retry: 10\nretry: +1\nretry: 1e9\r\n", "data: cut off", "data: cut off\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, stream string) {
		read, retry, err := client.ReadEvents(strings.NewReader(stream))
		require.ErrorIs(t, err, io.EOF)
		bytewise, again, _ := client.ReadEvents(iotest.OneByteReader(strings.NewReader(stream)))
		require.Equal(t, read, bytewise)
		require.Equal(t, retry, again)
		require.Equal(t, plainly(stream), read)
	})
}

// plainly reads the events of a stream that has arrived as a whole.
func plainly(stream string) (read [][2]string) {
	stream = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(stream)
	stream = stream[:strings.LastIndexByte(stream, '\n')+1]
	name, data := "", []string(nil)
	for line := range strings.Lines(stream) {
		line = strings.TrimSuffix(line, "\n")
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "" && data != nil:
			read = append(read, [2]string{name, strings.Join(data, "\n")})
			fallthrough
		case line == "":
			name, data = "", nil
		case field == "event":
			name = value
		case field == "data":
			data = append(data, value)
		}
	}
	return read
}

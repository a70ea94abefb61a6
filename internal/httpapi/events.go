package httpapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/fanmail/fanmail/internal/inbox"
	"github.com/fanmail/fanmail/internal/live"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

const (
	// checkTokenEvery is how often the token of an open stream is looked at again. With the time that a changed file takes to be read, a stream ends
	// within 10 s.
	checkTokenEvery = 5 * time.Second
	// smallFrame is the size of a frame that needs no memory of http.memory while it is written: the sockets hold as much.
	smallFrame = 32 << 10
)

// openStream opens the stream that a request asks for.
func (s *server) openStream(r *http.Request, user message.UserID, cursor string) (*live.Stream, error) {
	peek, err := queryFlag(r.URL.Query(), "peek")
	if err != nil {
		return nil, err
	}
	st, err := s.Live.Open(user, cursor, peek || r.Method == http.MethodHead)
	switch {
	case errors.Is(err, live.ErrFull):
		return nil, refuse(client.ProblemBusy, "", "as many streams are open as this process may have: try again after Retry-After")
	case errors.Is(err, live.ErrUserFull):
		return nil, refuse(client.ProblemRateLimited, "user", "as many streams of this user are open as one user may have: close one, or try again after Retry-After")
	}
	return st, err
}

// changes answers with one frame: at once if there is something new, or else after a wait.
func (s *server) changes(w *response, r *http.Request, user message.UserID) error {
	query := r.URL.Query()
	wait, err := queryWait(query, 0, client.MaxChangesWait)
	if err != nil {
		return err
	}
	cursor := query.Get("cursor")
	st, err := s.openStream(r, user, cursor)
	if err != nil {
		return err
	}
	defer st.Close()
	w.opened()
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // or it would end the request during the wait
	over := time.After(wait)
	for first := true; ; first = false {
		if !first { // the token may have ended meanwhile
			if err := s.identify(w, r, owner); err != nil {
				return err
			}
		}
		frame, _, keep, err := st.Look(r.Context())
		if err != nil {
			return err
		}
		if frame.Cursor == cursor && wait > 0 {
			keep(0)
			select {
			case <-st.Due():
				continue
			case <-over:
				wait = 0
				continue
			case <-s.Live.Ending():
				wait = 0
				continue
			case <-r.Context().Done():
				return r.Context().Err()
			}
		}
		defer keep(0)
		w.Header().Set("Cache-Control", "no-store")
		return writeJSON(w, http.StatusOK, client.ContentJSON, wireFrame(frame))
	}
}

// events answers with server-sent events: a frame each time that something has changed, until the client goes, its token ends, or the process stops.
func (s *server) events(w *response, r *http.Request, user message.UserID) error {
	cursor := r.Header.Get("Last-Event-Id")
	if cursor == "" {
		cursor = r.URL.Query().Get("cursor")
	}
	st, err := s.openStream(r, user, cursor)
	if err != nil {
		return err
	}
	defer st.Close()
	frame, _, keep, err := st.Look(r.Context())
	if err != nil {
		return err
	}
	defer keep(0) // also if the client is gone before the frame is written
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store, no-transform")
	w.Header().Set("X-Accel-Buffering", "no") // nginx would keep frames back
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil
	}
	w.opened()
	out := newStream(w, r.Body, s.opts.StreamWriteTimeout)
	defer out.close()
	err = writeRetry(out, time.Second+rand.N(2*time.Second)) //nolint:gosec // nobody gains by guessing it
	if err == nil {
		err = s.writeFrame(out, frame, keep)
	}
	if err == nil {
		err = s.followInbox(w, r, st, out, frame.More)
	}
	switch {
	case out.timedOut.Load():
		s.measured.cutStreams.Inc()
	case err != nil && r.Context().Err() == nil && !errors.Is(err, errHungUp):
		s.line(w, s.opts.Logger.Warn()).Err(err).Str("user", string(user)).Msg("a stream ended: its client comes back")
	}
	return nil // the answer has begun
}

// followInbox writes frames until the stream ends.
func (s *server) followInbox(w *response, r *http.Request, st *live.Stream, out *stream, more bool) error {
	heartbeat := time.NewTimer(s.opts.StreamHeartbeat)
	defer heartbeat.Stop()
	var check <-chan time.Time
	if s.opts.Auth != nil {
		ticker := time.NewTicker(checkTokenEvery)
		defer ticker.Stop()
		check = ticker.C
	}
	for {
		due := st.Due()
		if more {
			due = always
		}
		select {
		case <-due:
		case <-heartbeat.C:
			if _, err := out.Write([]byte(":\n\n")); err != nil {
				return err
			}
			heartbeat.Reset(s.opts.StreamHeartbeat)
			continue
		case <-check:
			if err := s.identify(w, r, owner); err != nil {
				return nil // the client learns why when it comes back
			}
			continue
		case <-s.Live.Ending():
			return leave(r.Context(), out)
		case <-r.Context().Done():
			return nil
		}
		frame, news, keep, err := st.Look(r.Context())
		if err != nil {
			return err
		}
		if more = frame.More; !news {
			keep(0)
			continue
		}
		if err := s.writeFrame(out, frame, keep); err != nil {
			return err
		}
		heartbeat.Reset(s.opts.StreamHeartbeat)
	}
}

// always can be received from.
var always = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// leave ends a stream of a process that stops: not all at once, and with a time after which the client comes back.
func leave(ctx context.Context, out *stream) error {
	stay, retry := live.Leave()
	select {
	case <-ctx.Done():
		return nil
	case <-time.After(stay):
		return writeRetry(out, retry)
	}
}

func writeRetry(out *stream, after time.Duration) error {
	_, err := fmt.Fprintf(out, "retry: %d\n\n", after.Milliseconds())
	return err
}

// writeFrame writes a frame as an event, and gives back its memory.
func (s *server) writeFrame(out *stream, frame inbox.Frame, keep func(int64)) error {
	defer keep(0)
	b := takeBuffer()
	defer returnBuffer(b)
	b.WriteString("event: frame\nid: " + frame.Cursor + "\ndata: ")
	if err := newEncoder(b).Encode(wireFrame(frame)); err != nil {
		return err
	}
	b.WriteByte('\n') // the encoder has ended the line of the data
	if b.Len() <= smallFrame {
		keep(0)
	} else {
		keep(2 * int64(b.Len())) // the text, and the messages that it was made of
	}
	s.measured.streamBytes.Add(float64(b.Len()))
	_, err := bytes.NewReader(b.Bytes()).WriteTo(out)
	return err
}

func wireFrame(f inbox.Frame) client.Frame {
	wire := client.Frame{
		Gone: f.Gone, Older: f.Older, ExpiredUpTo: idOrNil(f.ExpiredUpTo), ReadUpTo: idOrNil(f.ReadUpTo), Tally: client.Tally(f.Tally),
		Complete: f.Complete, Version: f.Version, Reset: f.Reset != "", Cursor: f.Cursor,
	}
	for _, m := range f.Entries {
		wire.Messages = append(wire.Messages, wireMessage(m))
	}
	for _, st := range f.States {
		wire.Flags = append(wire.Flags, client.MessageState(st))
	}
	return wire
}

// idOrNil returns nil for the zero id. In place of a bound at the end of a millisecond it returns the greatest id that a message can have there.
func idOrNil(id message.ID) *message.ID {
	if id.IsZero() {
		return nil
	}
	if id == message.LastBefore(id.Time().Add(time.Millisecond)) {
		id[6], id[8] = 0x7f, 0xbf
	}
	return &id
}

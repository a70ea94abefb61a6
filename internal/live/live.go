// Package live lets clients follow inboxes: a Stream says when its inbox may have changed, and finds what has changed since its last frame.
//
// A stream keeps a position and no queue: an inbox is its own log, so the next look covers whatever came meanwhile, however slow the client is, and
// however old its position.
package live

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/rs/zerolog"
	"golang.org/x/sync/semaphore"

	"github.com/fanmail/fanmail/internal/inbox"
	"github.com/fanmail/fanmail/internal/wake"
	"github.com/fanmail/fanmail/pkg/message"
)

var (
	// ErrFull says that the process has as many streams as it may have.
	ErrFull = errors.New("too many streams are open")
	// ErrUserFull says that a user has as many streams in this process as one user may have.
	ErrUserFull = errors.New("too many streams of this user are open")
)

const (
	// looksAtOnce is how many streams look at a time. A look takes about a bucket of memory and hardly waits.
	looksAtOnce = 16
	// LookMemory is the most that a look takes, in bytes: a bucket, the part of one that a frame has already, and a first page.
	LookMemory = 12 << 20
	// behindAtOnce is how many inboxes one check of the periodic look reads.
	behindAtOnce = 1000
	// drainOver is the time over which streams end when the process stops, so that their clients do not come back all at once.
	drainOver = 3 * time.Second
)

// Options configures a Service.
type Options struct {
	// Max is how many streams may be open, and PerUser how many of one user.
	Max, PerUser int
	// LookEvery is how often all open streams are checked for changes of which no wake-up told.
	LookEvery time.Duration
	// Reserve waits for memory. keep gives back all but so many bytes. Nil bounds nothing.
	Reserve func(ctx context.Context, bytes int64) (keep func(bytes int64), err error)
	Logger  zerolog.Logger
	// Metrics is the registry of the metrics; nil registers none.
	Metrics prometheus.Registerer
}

// Service has the open streams of a process. It is safe for concurrent use.
type Service struct {
	inboxes *inbox.Service
	hub     *wake.Hub
	opts    Options
	looks   *semaphore.Weighted
	metrics metrics

	mu      sync.Mutex
	streams map[*Stream]struct{}
	of      map[message.UserID]int
	ending  chan struct{}
	drain   func() // closes ending
}

type metrics struct {
	looks, frames, refused prometheus.Counter
}

// New returns a Service.
func New(inboxes *inbox.Service, hub *wake.Hub, opts Options) *Service {
	s := &Service{
		inboxes: inboxes, hub: hub, opts: opts, looks: semaphore.NewWeighted(looksAtOnce),
		streams: make(map[*Stream]struct{}), of: make(map[message.UserID]int), ending: make(chan struct{}),
	}
	s.drain = sync.OnceFunc(func() { close(s.ending) })
	with := promauto.With(opts.Metrics)
	counter := func(name, help string) prometheus.Counter {
		return with.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	with.NewGaugeFunc(prometheus.GaugeOpts{Name: "fanmail_streams", Help: "Open streams."}, func() float64 {
		s.mu.Lock()
		defer s.mu.Unlock()
		return float64(len(s.streams))
	})
	s.metrics = metrics{
		looks:   counter("fanmail_stream_looks_total", "Looks of streams at their inboxes."),
		frames:  counter("fanmail_stream_frames_total", "Looks that found something to send."),
		refused: counter("fanmail_stream_refusals_total", "Streams that were refused because too many were open."),
	}
	return s
}

// Stream follows an inbox. One goroutine uses it.
type Stream struct {
	s     *Service
	user  message.UserID
	peek  bool
	watch *wake.Watch

	mu     sync.Mutex
	at     inbox.Position // where the last look came to
	cursor string
	looked bool
}

// Open opens a stream that goes on after a cursor of a page or frame, or begins anew after an empty one. It returns ErrFull or ErrUserFull. The
// caller must close it.
func (s *Service) Open(user message.UserID, cursor string, peek bool) (*Stream, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	full := error(nil)
	switch {
	case len(s.streams) >= s.opts.Max:
		full = ErrFull
	case s.of[user] >= s.opts.PerUser:
		full = ErrUserFull
	}
	if full != nil {
		s.metrics.refused.Inc()
		return nil, full
	}
	st := &Stream{s: s, user: user, peek: peek, cursor: cursor, watch: s.hub.Watch(user)}
	s.streams[st] = struct{}{}
	s.of[user]++
	return st, nil
}

// Close ends the stream.
func (st *Stream) Close() {
	st.watch.Close()
	st.s.mu.Lock()
	defer st.s.mu.Unlock()
	delete(st.s.streams, st)
	if st.s.of[st.user]--; st.s.of[st.user] == 0 {
		delete(st.s.of, st.user)
	}
}

// Due receives when a look may find something. It is never closed.
func (st *Stream) Due() <-chan struct{} { return st.watch.C() }

// Look returns what has changed since the last frame, and whether that is anything. The first frame has everything that holds now, and counts as
// something. The frame's memory is reserved until the caller keeps 0 bytes of it. The errors are those of inbox.Service.Changes; nothing is
// reserved then.
func (st *Stream) Look(ctx context.Context) (frame inbox.Frame, news bool, keep func(bytes int64), err error) {
	if err = st.s.looks.Acquire(ctx, 1); err != nil {
		return frame, false, nil, err
	}
	defer st.s.looks.Release(1)
	keep = func(int64) {}
	if st.s.opts.Reserve != nil {
		if keep, err = st.s.opts.Reserve(ctx, LookMemory); err != nil {
			return frame, false, nil, err
		}
	}
	st.s.metrics.looks.Inc()
	frame, err = st.s.inboxes.Changes(ctx, st.user, inbox.FrameRequest{Cursor: st.cursor, Peek: st.peek, First: !st.looked})
	if err != nil {
		keep(0)
		return frame, false, nil, err
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if news = !st.looked || frame.Reset != "" || frame.At != st.at; news {
		st.s.metrics.frames.Inc()
	}
	st.looked, st.at, st.cursor = true, frame.At, frame.Cursor
	return frame, news, keep, nil
}

// Ending is closed when the process stops. A stream then ends within the time that Leave returns.
func (s *Service) Ending() <-chan struct{} { return s.ending }

// Leave returns how long a stream stays when the process stops, and after what time its client is to come back.
func Leave() (stay, retry time.Duration) {
	return rand.N(drainOver), time.Second + rand.N(9*time.Second) //nolint:gosec // nobody gains by guessing it
}

// Drain ends all streams. It does not wait.
func (s *Service) Drain() { s.drain() }

// Run checks the inboxes of all streams from time to time, and wakes the streams whose inbox has changed.
func (s *Service) Run(ctx, _ context.Context) {
	for {
		jitter := rand.N(s.opts.LookEvery / 5) //nolint:gosec // nobody gains by guessing it
		select {
		case <-ctx.Done():
			return
		case <-time.After(s.opts.LookEvery - s.opts.LookEvery/10 + jitter):
		}
		s.check(ctx)
	}
}

// check wakes the streams whose inboxes have changed.
func (s *Service) check(ctx context.Context) {
	s.mu.Lock()
	all := slices.Collect(maps.Keys(s.streams))
	s.mu.Unlock()
	for part := range slices.Chunk(all, behindAtOnce) {
		watched := make([]inbox.Watched, len(part))
		for i, st := range part {
			st.mu.Lock()
			watched[i] = inbox.Watched{User: st.user, At: st.at, Peek: st.peek}
			st.mu.Unlock()
		}
		behind, err := s.inboxes.Behind(ctx, watched)
		if err != nil {
			if ctx.Err() == nil {
				s.opts.Logger.Warn().Err(err).Int("streams", len(part)).Msg("open streams could not be checked for changes: they are checked again soon")
			}
			return
		}
		for i, st := range part {
			if behind[i] {
				st.watch.Wake()
			}
		}
	}
}

// Package wake lets an open stream learn at once that an inbox has changed.
//
// A process announces the hashes of the owners whose inboxes it watches: a new one at once, all every 10 s. A process that changes such an
// inbox tells those that watch it. Buckets, Users and Flags wrap the stores, so that every writer does this after its write is readable.
//
// All of this is a hint. A lost one delays a stream until it looks by itself, and a needless one, such as after a collision of hashes, costs a
// look. So nothing is repeated, everything that waits or is remembered has a bound, and what exceeds the bound is dropped and counted. Any
// client of the bus can send hints: they can cost looks and the other hints, nothing else.
package wake

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/rs/zerolog"

	"github.com/fanmail/fanmail/pkg/message"
)

// Options configures a Hub. With a Bus, Process, Now and Logger are required.
type Options struct {
	// Bus reaches the other processes; nil if there are none.
	Bus Bus
	// Process identifies this process: no other one has the same.
	Process string
	Now     func() time.Time
	Logger  zerolog.Logger
	// Metrics is the registry of the metrics; nil means none.
	Metrics prometheus.Registerer
}

// Hub knows whose inboxes this process watches, and whose the others do. It is safe for concurrent use.
type Hub struct {
	opts    Options
	process uint32 // stands for opts.Process on the bus, with 24 bits

	// watched counts the hashes in here and elsewhere.
	watched   atomic.Int64
	mu        sync.RWMutex
	here      map[uint64][]*Watch
	elsewhere map[uint64]watchers // what other processes have announced
	room      int                 // maxElsewhere

	pendingMu sync.Mutex
	pending   map[hint]struct{} // what Run is to send, at most maxPending
	due       chan struct{}     // has room for one: something is pending

	sent, received, dropped prometheus.Counter
}

// New returns a Hub. It reaches other processes while Run runs.
func New(opts Options) *Hub {
	h := &Hub{
		opts: opts, process: max(everyone+1, uint32(xxhash.Sum64String(opts.Process)>>40)),
		here: make(map[uint64][]*Watch), elsewhere: make(map[uint64]watchers), room: maxElsewhere,
		pending: make(map[hint]struct{}), due: make(chan struct{}, 1),
	}
	with := promauto.With(opts.Metrics)
	counter := func(name, help string) prometheus.Counter {
		return with.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	gauge := func(name, help string, value func() int) {
		with.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
			h.mu.RLock()
			defer h.mu.RUnlock()
			return float64(value())
		})
	}
	gauge("fanmail_watched_inboxes", "Inboxes that streams of this process watch.", func() int { return len(h.here) })
	gauge("fanmail_watched_elsewhere", "Inboxes that other processes have announced to watch.", func() int { return len(h.elsewhere) })
	h.sent = counter("fanmail_wakeups_sent_total", "Changes of inboxes that this process has told to others that watch them.")
	h.received = counter("fanmail_wakeups_received_total", "Changes of inboxes that other processes have told to this one.")
	h.dropped = counter("fanmail_wakeups_dropped_total", "Hints between processes that were dropped: malformed, too many, or without a connection.")
	return h
}

// Watch is an interest in changes of an inbox. Close it after its last use.
type Watch struct {
	hub     *Hub
	hash    uint64
	changed chan struct{}
}

// hashOf returns the hash that stands for an owner in all processes.
func hashOf(owner message.UserID) uint64 { return xxhash.Sum64String(string(owner)) }

// Watch begins to watch the inbox of a user, and announces that to other processes at once, unless this process watches the inbox already. A
// process that changes the inbox before it hears the announcement does not wake the watch: also look at the inbox from time to time.
func (h *Hub) Watch(user message.UserID) *Watch {
	w := &Watch{hub: h, hash: hashOf(user), changed: make(chan struct{}, 1)}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.here[w.hash] = append(h.here[w.hash], w); len(h.here[w.hash]) == 1 {
		h.count()
		h.post(hint{everyone, w.hash})
	}
	return w
}

// C returns a channel with room for one. It receives when the inbox may have changed since the last receive. It is never closed.
func (w *Watch) C() <-chan struct{} { return w.changed }

// Wake makes C receive, as a change does.
func (w *Watch) Wake() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// Close ends the watch. It is idempotent.
func (w *Watch) Close() {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	here := w.hub.here
	here[w.hash] = slices.DeleteFunc(here[w.hash], func(other *Watch) bool { return other == w })
	if len(here[w.hash]) == 0 {
		delete(here, w.hash)
	}
	w.hub.count()
}

// count counts what is watched. The caller holds mu.
func (h *Hub) count() { h.watched.Store(int64(len(h.here) + len(h.elsewhere))) }

// anyWatched reports whether any process watches an inbox.
func (h *Hub) anyWatched() bool { return h.watched.Load() > 0 }

// Changed wakes the watches of a user's inbox in this process, and tells the other processes that watch it. Call it when the change can be read.
// It does not block. While no process watches an inbox, it costs one atomic load.
func (h *Hub) Changed(user message.UserID) {
	if !h.anyWatched() {
		return
	}
	hash := hashOf(user)
	elsewhere := h.wake(hash)
	if elsewhere == (watchers{}) {
		return
	}
	now := h.seconds()
	for _, w := range elsewhere {
		if w.alive(now) {
			h.post(hint{w.process(), hash})
		}
	}
}

// wake wakes the watches of a hash in this process, and returns the other processes that watch it.
func (h *Hub) wake(hash uint64) watchers {
	h.mu.RLock()
	defer h.mu.RUnlock()
	for _, w := range h.here[hash] {
		w.Wake()
	}
	return h.elsewhere[hash]
}

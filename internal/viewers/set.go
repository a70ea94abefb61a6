// Package viewers keeps the users who have viewed their inbox within the last minutes: they get a head start of messages to many.
//
// Viewers are hints. A wrong or a lost one changes only when a message arrives, never whether it does. So they have no record: each process
// keeps a bounded set in memory, and processes tell each other by a broadcast that may lose anything.
package viewers

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/rs/zerolog"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/internal/startstop"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
)

// Max is the most users that a Set keeps. Ten thousand ids are about a megabyte, and few enough to be looked up for one message.
const Max = 10_000

const (
	// every is the time between two rounds, in which a Set announces views and makes a new list. One event has the views of a
	// second. A second is soon enough, because a user who has just opened a page does not expect the next message yet.
	every = time.Second
	// listenPause is how long a Set waits after the bus has failed.
	listenPause = time.Second
)

// Options configures a Set.
type Options struct {
	// Bus tells other processes of views, and this process of theirs.
	Bus    bus.Viewings
	Now    func() time.Time
	Logger zerolog.Logger
	// Metrics is where the metrics are registered; nil means nowhere.
	Metrics prometheus.Registerer
}

// Set is the viewers that a process knows. All methods are safe for concurrent use.
type Set struct {
	opts    Options
	recent  *recent
	current atomic.Pointer[[]message.UserID]
	size    prometheus.Gauge
}

// New returns an empty Set.
func New(opts Options) *Set {
	s := &Set{
		opts: opts, recent: newRecent(),
		size: promauto.With(opts.Metrics).NewGauge(prometheus.GaugeOpts{
			Name: "fanmail_viewers", Help: "Users who have viewed a page within five minutes, as far as this process has heard.",
		}),
	}
	s.current.Store(&[]message.UserID{})
	return s
}

// Users returns all viewers, ascending. It takes no lock and copies nothing: the caller must not change
// the slice, and the Set does not change it either. The list is about a second old.
func (s *Set) Users() []message.UserID { return *s.current.Load() }

// Seen adds a user who has viewed a page of their inbox. It does not block.
func (s *Set) Seen(user message.UserID) { s.recent.seen(user, s.opts.Now()) }

// Run announces views and renews the list once a second, until intake ends. It announces nothing at the end.
func (s *Set) Run(intake, _ context.Context) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			s.round()
		case <-intake.Done():
			return
		}
	}
}

func (s *Set) round() {
	for users := range slices.Chunk(s.recent.takeUntold(), usersPerEvent) {
		s.opts.Bus.EmitViewed(event.NewViewed(users))
	}
	if users, changed := s.recent.list(s.opts.Now()); changed {
		slices.Sort(users)
		s.size.Set(float64(len(users)))
		s.current.Store(&users)
	}
}

// Listen adds the users of whom other processes tell, until intake ends.
func (s *Set) Listen(intake, _ context.Context) {
	for intake.Err() == nil {
		err := s.opts.Bus.HearViewed(intake, func(e event.Viewed) {
			now := s.opts.Now()
			for _, user := range e.Users {
				s.recent.heard(user, now)
			}
		})
		if err != nil && intake.Err() == nil {
			s.opts.Logger.Warn().Err(err).Stringer("again_in", listenPause).Msg("an announcement of views is lost: these users get no head start")
			startstop.Pause(intake, listenPause)
		}
	}
}

package candidates

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/rs/zerolog"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/internal/popular"
	"github.com/fanmail/fanmail/internal/startstop"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
)

// Max is the most users of each kind that a Set keeps. Ten thousand ids are about a megabyte, and few enough to be looked up for one
// message.
const Max = popular.Max

const (
	// every is the time between two rounds, in which a Set announces views and makes a new list of candidates. One event has the views of a
	// second. A second is soon enough, because a user who has just opened a page does not expect the next message yet.
	every = time.Second
	// listenPause is how long a Set waits after the bus has failed.
	listenPause = time.Second
)

// Options configures a Set.
type Options struct {
	// Bus tells other processes of views, and this process of theirs.
	Bus bus.Viewings
	// Popular holds the record of the users with the most followers, for Update.
	Popular popular.Store
	// Random returns a random number from 0 up to and excluding n; nil means rand.IntN.
	Random func(n int) int
	Now    func() time.Time
	Logger zerolog.Logger
	// Metrics is where the metrics are registered; nil means nowhere.
	Metrics prometheus.Registerer
}

// Set is the candidates that a process knows. All methods are safe for concurrent use.
type Set struct {
	opts    Options
	viewers *viewers
	largest *largest
	current atomic.Pointer[[]message.UserID]
	// listed are the viewers in current. Only round uses them.
	listed []message.UserID

	viewersSize, largestSize prometheus.Gauge
}

// New returns an empty Set.
func New(opts Options) *Set {
	if opts.Random == nil {
		opts.Random = rand.IntN
	}
	size := promauto.With(opts.Metrics).NewGaugeVec(prometheus.GaugeOpts{
		Name: "fanmail_candidates", Help: "Users to whom messages are worth a head start, by the reason for it.",
	}, []string{"set"})
	s := &Set{
		opts: opts, viewers: newViewers(), largest: newLargest(),
		viewersSize: size.WithLabelValues("viewers"), largestSize: size.WithLabelValues("largest"),
	}
	s.current.Store(&[]message.UserID{})
	return s
}

// Users returns all candidates, ascending and without repeats. It takes no lock and copies nothing: the caller must not change
// the slice, and the Set does not change it either. The list is about a second old.
func (s *Set) Users() []message.UserID { return *s.current.Load() }

// Seen adds a user who has viewed a page of their inbox. It does not block.
func (s *Set) Seen(user message.UserID) { s.viewers.seen(user, s.opts.Now()) }

// Run announces views and renews the list of candidates once a second, until intake ends. It announces nothing at the end.
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
	for users := range slices.Chunk(s.viewers.takeUntold(), usersPerEvent) {
		s.opts.Bus.EmitViewed(event.NewViewed(users))
	}
	viewers, changed := s.viewers.list(s.opts.Now())
	if changed {
		s.listed = viewers
		s.viewersSize.Set(float64(len(viewers)))
	}
	largest, updated := s.largest.list()
	if updated {
		s.largestSize.Set(float64(len(largest)))
	}
	if changed || updated {
		users := slices.Concat(s.listed, largest)
		slices.Sort(users)
		users = slices.Compact(users)
		s.current.Store(&users)
	}
}

// Listen adds the users of whom other processes tell, until intake ends.
func (s *Set) Listen(intake, _ context.Context) {
	for intake.Err() == nil {
		err := s.opts.Bus.HearViewed(intake, func(e event.Viewed) {
			now := s.opts.Now()
			for _, user := range e.Users {
				s.viewers.heard(user, now)
			}
		})
		if err != nil && intake.Err() == nil {
			s.opts.Logger.Warn().Err(err).Stringer("again_in", listenPause).Msg("an announcement of views is lost: these users get no head start")
			startstop.Pause(intake, listenPause)
		}
	}
}

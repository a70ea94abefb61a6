// Package clocks compares the clock of this host with those of the servers that all processes share: the database's and the bus's.
//
// A reading of another clock takes a request, so it was made at some moment of the request. The package takes the middle, and counts half
// of the request's duration as the error. Only what is beyond the error counts as a difference, so a slow server is not a wrong clock.
package clocks

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/rs/zerolog"

	"github.com/fanmail/fanmail/internal/duration"
	"github.com/fanmail/fanmail/internal/panics"
	"github.com/fanmail/fanmail/internal/startstop"
)

const (
	// every is the pause between two comparisons.
	every = 10 * time.Second
	// timeout is how long a server may take to say what time it is.
	timeout = 5 * time.Second
	// harmless is the divisor for the difference of clocks that has no effect: a quarter of the tolerance. Half of the tolerance is for the
	// clocks and the timeout of the database together, and this timeout is at most a quarter.
	harmless = 4
)

// ErrApart means that the clock of this host differs from a server's by more than the tolerance.
var ErrApart = errors.New("the clocks are too far apart")

// Clock is the clock of a server.
type Clock struct {
	// Server is the value of the label of the metric: store or bus.
	Server string
	// Name is the name of the clock in texts, such as "the database's clock".
	Name string
	// Read returns what the clock shows at some moment of the call.
	Read func(context.Context) (time.Time, error)
}

// Options configures a Watch. All fields except Metrics are required.
type Options struct {
	// Now is the clock of this host.
	Now func() time.Time
	// Tolerance returns the clock_tolerance that holds now.
	Tolerance func() time.Duration
	Logger    zerolog.Logger
	Metrics   prometheus.Registerer
}

// Watch compares clocks.
type Watch struct {
	clocks  []Clock
	opts    Options
	offsets *prometheus.GaugeVec

	mu  sync.Mutex
	off map[string]bool // by Clock.Server: whether the last line of the log said that the clocks differ
	// last are the last comparisons by Clock.Server, of the servers that answered.
	last map[string]Reading
}

// New returns a Watch of some clocks.
func New(clocks []Clock, opts Options) *Watch {
	metrics := promauto.With(opts.Metrics)
	metrics.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "fanmail_clock_tolerance_seconds", Help: "The setting clock_tolerance. A process does not start if its clock is off by more.",
	}, func() float64 { return opts.Tolerance().Seconds() })
	return &Watch{
		clocks: clocks, opts: opts, off: make(map[string]bool), last: make(map[string]Reading),
		offsets: metrics.NewGaugeVec(prometheus.GaugeOpts{
			Name: "fanmail_clock_offset_seconds",
			Help: "How far the clock of this host is ahead of another; negative if it is behind. Absent while that server does not answer.",
		}, []string{"server"}),
	}
}

// reading is a comparison of two clocks.
type reading struct {
	here, there time.Time
	// inexact is the most by which here can differ from the moment when there was read.
	inexact time.Duration
}

// ahead returns how far the clock of this host is ahead.
func (r reading) ahead() time.Duration { return r.here.Sub(r.there) }

// apart returns by how much the clocks differ at least.
func (r reading) apart() time.Duration { return max(0, r.ahead().Abs()-r.inexact) }

func (r reading) String() string {
	direction := "ahead of"
	if r.ahead() < 0 {
		direction = "behind"
	}
	return duration.Text(r.ahead().Abs().Round(time.Millisecond)) + " " + direction
}

// Reading is what the last comparison with a server's clock has shown.
type Reading struct {
	// Server is that of Clock.
	Server string
	// Ahead is how far the clock of this host is ahead, and Within by how much that may be wrong.
	Ahead, Within time.Duration
	// Off says that the clocks differ by more than a quarter of the tolerance, Apart that they differ by more than all of it.
	Off, Apart bool
}

// Readings returns the last comparisons. It has none of a server that did not answer the last one.
func (w *Watch) Readings() (readings []Reading) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.clocks {
		if r, ok := w.last[c.Server]; ok {
			readings = append(readings, r)
		}
	}
	return readings
}

// errNotTold is the error of a server, or of a proxy before it, whose answer has no time.
var errNotTold = errors.New("the answer has no time")

// read compares the clock of this host with another. The difference between two times of Now is that of their monotonic readings, so the
// middle is right even if the clock is set during the request.
func (w *Watch) read(ctx context.Context, c Clock) (r reading, err error) {
	defer panics.Catch(&err)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	before := w.opts.Now()
	there, err := c.Read(ctx)
	if err != nil {
		return reading{}, err
	}
	if there.IsZero() {
		return reading{}, errNotTold
	}
	half := w.opts.Now().Sub(before) / 2
	return reading{here: before.Add(half).Round(0), there: there.Round(0), inexact: half}, nil
}

// Check compares the clocks once. It returns an error that wraps ErrApart if one of them differs by more than the tolerance. A server that
// does not answer is left to Run.
func (w *Watch) Check(ctx context.Context) error {
	for _, c := range w.clocks {
		r, beyond := w.beyond(ctx, c)
		if beyond { // again: the host may have slept during the request, or its clock been set
			r, beyond = w.beyond(ctx, c)
		}
		if beyond {
			return fmt.Errorf("%w: it is %s on this host and %s by %s, so this host is %s it, and clock_tolerance is %s: set the wrong clock right, "+
				"run an NTP client on both hosts, and start the process again",
				ErrApart, stamp(r.here), stamp(r.there), c.Name, r, duration.Text(w.opts.Tolerance()))
		}
	}
	return ctx.Err()
}

// Now returns what the first of the clocks shows, and whether all of them agree with that of this host, within the tolerance. A later one may have no
// time.
func (w *Watch) Now(ctx context.Context) (now time.Time, agree bool, err error) {
	agree = true
	for i, c := range w.clocks {
		r, err := w.read(ctx, c)
		switch {
		case i > 0 && errors.Is(err, errNotTold):
			continue
		case err != nil:
			return time.Time{}, false, fmt.Errorf("read %s: %w", c.Name, err)
		case i == 0:
			now = r.there
		}
		agree = agree && r.apart() <= w.opts.Tolerance()
	}
	return now, agree, nil
}

// beyond compares the clocks, and reports whether they differ by more than the tolerance.
func (w *Watch) beyond(ctx context.Context, c Clock) (reading, bool) {
	r, err := w.compare(ctx, c)
	tolerance := w.opts.Tolerance()
	return r, err == nil && r.apart() > tolerance
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// Run compares the clocks every ten seconds until intake ends. It is a startstop.Loop. Run only measures and logs, however wrong a clock
// is. No difference loses messages, and other processes would have to take over the work of a process that stops.
func (w *Watch) Run(intake, _ context.Context) {
	for startstop.Pause(intake, every); intake.Err() == nil; startstop.Pause(intake, every) {
		for _, c := range w.clocks {
			_, _ = w.compare(intake, c)
		}
	}
}

// compare compares the clock of this host with another, measures the difference, and logs when it becomes or ceases to be large.
func (w *Watch) compare(ctx context.Context, c Clock) (reading, error) {
	r, err := w.read(ctx, c)
	if err != nil {
		w.offsets.DeleteLabelValues(c.Server)
		w.mu.Lock()
		delete(w.last, c.Server)
		w.mu.Unlock()
		w.opts.Logger.Debug().Err(err).Str("server", c.Server).Msg("a clock cannot be read: it is tried again")
		return r, err
	}
	w.offsets.WithLabelValues(c.Server).Set(r.ahead().Seconds())
	w.log(c, r)
	return r, nil
}

func (w *Watch) log(c Clock, r reading) {
	tolerance := w.opts.Tolerance()
	off := r.apart() > tolerance/harmless
	w.mu.Lock()
	changed := w.off[c.Server] != off
	w.off[c.Server] = off
	w.last[c.Server] = Reading{Server: c.Server, Ahead: r.ahead(), Within: r.inexact, Off: off, Apart: r.apart() > tolerance}
	w.mu.Unlock()
	if !changed {
		return
	}
	if off {
		w.opts.Logger.Warn().Str("server", c.Server).Float64("ahead_seconds", r.ahead().Seconds()).Time("here", r.here).Time("there", r.there).
			Str("clock_tolerance", duration.Text(tolerance)).Msg("the clock of this host differs from another: set the wrong one right")
		return
	}
	w.opts.Logger.Info().Str("server", c.Server).Float64("ahead_seconds", r.ahead().Seconds()).Msg("the clock of this host is right again")
}

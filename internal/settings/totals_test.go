package settings_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/settings"
	"github.com/fanmail/fanmail/internal/tally"
	"github.com/fanmail/fanmail/pkg/message"
)

func done(n int64) tally.Counters { return tally.Counters{Accepted: n, Delivered: 2 * n} }

// reports reports a process, and returns the totals that it shows.
func (w *world) reports(t *testing.T, p process) tally.Counters {
	t.Helper()
	require.NoError(t, p.Open(t.Context(), w.Settings()))
	_, _, totals := p.Rows()
	return totals
}

func (w *world) totals(t *testing.T) settings.Totals {
	t.Helper()
	totals, err := w.Settings().Totals(t.Context())
	require.NoError(t, err)
	return totals
}

// TestTotals lets a process end, and another one pause for minutes and for days. What they did counts once.
func TestTotals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := w.process(t, "a", nil), w.process(t, "b", nil)
	require.Zero(t, w.reports(t, a))
	a.Add(done(5))
	require.Equal(t, done(5), w.reports(t, a))
	b.Add(done(2))
	require.Equal(t, done(7), w.reports(t, b))
	require.Empty(t, w.totals(t).Taken)
	rows, before, _ := b.Rows()
	require.Equal(t, done(2), rows[1].Counters)
	require.Zero(t, before[1].Counters)

	w.clock.pass(2 * time.Minute)
	require.Equal(t, done(7), w.reports(t, b))
	require.Equal(t, map[string]tally.Counters{"a": done(5)}, w.totals(t).Taken)
	a.Add(done(1))
	require.Equal(t, done(8), w.reports(t, a), "a goes on")
	w.clock.pass(2 * time.Minute)
	require.Equal(t, done(8), w.reports(t, b))
	require.Equal(t, map[string]tally.Counters{"a": done(6)}, w.totals(t).Taken)

	w.clock.pass(settings.Forget)
	require.Equal(t, done(8), w.reports(t, b), "its row is forgotten")
	require.Equal(t, done(8), w.reports(t, b))
	require.Equal(t, settings.Totals{Revision: w.totals(t).Revision, Base: done(6), Taken: map[string]tally.Counters{}}, w.totals(t))
	a.Add(done(3))
	w.reports(t, a)
	require.Equal(t, done(11), w.reports(t, a), "it begins again under a new name")
	rows, _, _ = a.Rows()
	require.Len(t, rows, 2)
	require.Regexp(t, `^a-\w{8}$`, rows[0].Name)
	require.Equal(t, done(3), rows[0].Counters)
}

// TestAllWereAwayForDays begins again on a store whose last process had ended before any other took its row.
func TestAllWereAwayForDays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.process(t, "a", nil)
	a.Add(done(5))
	w.reports(t, a)
	w.clock.pass(3 * settings.Forget)
	b := w.process(t, "b", nil)
	require.Equal(t, done(5), w.reports(t, b))
	require.Equal(t, done(5), w.totals(t).Base)
	rows, _, _ := b.Rows()
	require.Len(t, rows, 1)
}

// TestLastReport ends a process as it ends when it stops.
func TestLastReport(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.process(t, "a", nil)
	a.Add(done(5))
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	a.Report(stopped, t.Context())
	rows, err := w.Settings().Processes(t.Context())
	require.NoError(t, err)
	require.Equal(t, done(5), rows[0].Counters)
	require.Equal(t, settings.Stopping, rows[0].State)
}

// lossy is a store whose reports fail sometimes, before or after they take effect.
type lossy struct {
	settings.Store
	random *rand.Rand
}

func (s lossy) Report(ctx context.Context, p settings.Process) (time.Time, error) {
	if s.random.IntN(8) == 0 {
		return time.Time{}, message.ErrUnavailable
	}
	now, err := s.Store.Report(ctx, p)
	if s.random.IntN(8) == 0 {
		return time.Time{}, message.ErrUnavailable
	}
	return now, err
}

// TestTotalsAtRandom lets processes work, pause, end and begin. No total falls, or is more than was done, and in the end it lacks only what ended
// processes had not reported, and what was in reports without an answer of forgotten ones.
func TestTotalsAtRandom(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 0))
			w := newWorld(t)
			var processes [3]process
			var shown [3]tally.Counters
			var unreported [3]int64 // at most what the process has done since its last report that was answered
			var answered [3]time.Time
			worked, lost := int64(0), int64(0)
			begin := func(i int) {
				processes[i], shown[i] = w.process(t, fmt.Sprintf("p%d-%d", i, random.Uint32()), nil), tally.Counters{}
				answered[i], unreported[i] = w.clock.Now(), 0
			}
			for i := range processes {
				begin(i)
			}
			for range 400 {
				i := random.IntN(len(processes))
				switch p := processes[i]; random.IntN(12) {
				case 0:
					w.clock.pass(time.Duration(random.IntN(200)) * time.Second)
				case 1:
					w.clock.pass(time.Duration(random.IntN(30)) * time.Hour)
				case 2:
					lost += unreported[i]
					begin(i)
				case 3, 4, 5, 6:
					n := random.Int64N(5)
					p.Add(done(n))
					worked, unreported[i] = worked+n, unreported[i]+n
				default:
					err := p.Open(t.Context(), lossy{w.Settings(), random})
					switch now := w.clock.Now(); {
					case err != nil:
					case now.Sub(answered[i]) > settings.Forget: // its row may have been forgotten: this report makes another, without counters
						answered[i] = now
						lost += unreported[i]
					default:
						answered[i], unreported[i] = now, 0
					}
					_, _, totals := p.Rows()
					require.Equal(t, totals, totals.Max(shown[i]), "a total falls")
					require.LessOrEqual(t, totals.Accepted, worked)
					shown[i] = totals
				}
			}
			for range 2 { // a forgotten process makes its row first
				for _, p := range processes {
					w.reports(t, p)
				}
			}
			totals := w.reports(t, processes[0])
			require.LessOrEqual(t, totals.Accepted, worked)
			require.GreaterOrEqual(t, totals.Accepted, worked-lost)
			require.Greater(t, totals.Accepted, worked/2)
			require.Equal(t, 2*totals.Accepted, totals.Delivered)
		})
	}
}

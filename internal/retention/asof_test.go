package retention_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/retention"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

const hold = time.Hour

// timed is a world of two processes that hold readings of the store's clock for an hour. Looks and rounds are ten minutes apart.
type timed struct {
	*world
	walkers []*retention.Walker
	// set is by how much the store's clock is wrong, and apart says of which process the clock is another one than that.
	set   time.Duration
	apart [2]bool
}

func newTimed(t *testing.T) *timed {
	t.Helper()
	w := &timed{world: newWorld(t), walkers: make([]*retention.Walker, 2)}
	w.retention.MaxAge = day
	for n := range w.walkers {
		w.restart(n)
	}
	return w
}

// restart lets a process forget what it has seen.
func (w *timed) restart(n int) {
	opts := w.options(strconv.Itoa(n))
	opts.Every, opts.Hold = 10*time.Minute, hold
	opts.Clock = func(context.Context) (time.Time, bool, error) { return w.clock.Add(w.set), !w.apart[n], nil }
	own := func() time.Duration {
		if w.apart[n] {
			return w.set
		}
		return 0
	}
	opts.Now = func() time.Time { return w.clock.Add(w.set + own()) }
	w.walkers[n] = w.walkerWith(opts)
}

// pass lets time pass, in which the processes look, and requires that nothing expires as of a time that has not come.
func (w *timed) pass(t *testing.T, d time.Duration) {
	t.Helper()
	for end := w.clock.Add(d); w.clock.Before(end); w.clock = w.clock.Add(2 * time.Minute) {
		for _, walker := range w.walkers {
			require.NoError(t, w.walk(t, walker))
		}
		require.False(t, w.store.round.AsOf.After(w.clock), "as of %v at %v", w.store.round.AsOf, w.clock)
	}
}

// requireGoesOn requires that messages expire as of a time that is at most so long ago.
func (w *timed) requireGoesOn(t *testing.T, ago time.Duration) {
	t.Helper()
	require.False(t, w.store.round.AsOf.Before(w.clock.Add(-ago)), "as of %v at %v", w.store.round.AsOf, w.clock)
}

// within is after how long a reading of a right clock counts at the latest, and how old it can be then.
const within = hold + 2*15*time.Minute

// A clock that jumps, and is back before a reading has stood for long enough, lets nothing expire too early, wherever it jumps and whoever
// restarts meanwhile. Afterwards expiry goes on.
func TestClockThatJumps(t *testing.T) {
	t.Parallel()
	for _, jump := range []time.Duration{3 * day, -3 * day, 40 * day, -40 * day, 5 * time.Minute, -5 * time.Minute} {
		for _, began := range []bool{false, true} { // a process began with the wrong clock: it has nothing to compare it with
			t.Run(fmt.Sprint(jump, began), func(t *testing.T) {
				t.Parallel()
				w := newTimed(t)
				w.pass(t, 2*within)
				w.requireGoesOn(t, hold+within)
				w.set = jump
				if began {
					w.restart(0)
				}
				w.pass(t, hold-15*time.Minute)
				w.set = 0
				if began {
					w.restart(0)
				}
				w.pass(t, hold+within)
				w.requireGoesOn(t, hold+within)
				require.NotZero(t, w.store.round.LowWater)
			})
		}
	}
}

// The clock of one process that is wrong for ever changes nothing: that of the store and of the other process say so.
func TestClockOfOneProcessIsWrong(t *testing.T) {
	t.Parallel()
	w := newTimed(t)
	w.apart[0], w.set = true, 0
	w.pass(t, 10*hold)
	w.requireGoesOn(t, hold+within)
	w.apart[1] = true // no clock is believed
	stands := w.store.round.AsOf
	w.pass(t, 5*hold)
	require.Equal(t, stands, w.store.round.AsOf)
	w.apart = [2]bool{}
	w.pass(t, hold+within)
	w.requireGoesOn(t, hold+within)
}

// After a long stop the old reading has to stand first, and then the new one.
func TestClockAfterALongStop(t *testing.T) {
	t.Parallel()
	w := newTimed(t)
	w.pass(t, 2*within)
	w.clock = w.clock.Add(10 * day)
	w.restart(0)
	w.restart(1)
	w.pass(t, within/2)
	require.True(t, w.store.round.AsOf.Before(w.clock.Add(-9*day)))
	w.pass(t, 2*within)
	w.requireGoesOn(t, hold+within)
	require.Equal(t, rig.Epoch.Location(), w.store.round.AsOf.Location())
}

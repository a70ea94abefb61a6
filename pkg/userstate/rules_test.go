package userstate_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/userstate"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

const day = 24 * time.Hour

// seen returns the state of a user whom the default rules keep active since a time, or of a user never seen.
func seen(at time.Time) userstate.State {
	if at.IsZero() {
		return userstate.State{User: "ann"}
	}
	return userstate.State{User: "ann", LastViewed: at, Horizon: at.Add(30 * day)}
}

func TestDeliver(t *testing.T) {
	t.Parallel()
	horizon := epoch.Add(30 * day)
	for _, test := range []struct {
		name    string
		state   userstate.State
		sent    time.Time
		deliver bool
	}{
		{"long before", seen(epoch), epoch.Add(-365 * day), true},
		{"since", seen(epoch), epoch.Add(day), true},
		{"just before the horizon", seen(epoch), horizon.Add(-time.Millisecond), true},
		{"at the horizon", seen(epoch), horizon, true},
		{"just after the horizon", seen(epoch), horizon.Add(time.Millisecond), false},
		{"never seen", seen(time.Time{}), epoch, false},
		{"never seen, at the beginning of time", seen(time.Time{}), time.UnixMilli(0), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, test.deliver, test.state.Deliver(test.sent))
		})
	}
}

func TestRulesActive(t *testing.T) {
	t.Parallel()
	r := userstate.DefaultRules()
	edge := epoch.Add(30*day - r.ClockTolerance) // the horizon with the tolerance to spare
	for _, test := range []struct {
		name   string
		state  userstate.State
		now    time.Time
		active bool
	}{
		{"just seen", seen(epoch), epoch, true},
		{"seen by a clock ahead", seen(epoch), epoch.Add(-time.Minute), true},
		{"just before", seen(epoch), edge.Add(-time.Millisecond), true},
		{"at the edge", seen(epoch), edge, false},
		{"at the horizon", seen(epoch), epoch.Add(30 * day), false},
		{"never seen", seen(time.Time{}), epoch, false},
		{"never seen, at the beginning of time", seen(time.Time{}), time.Time{}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, test.active, r.Active(test.state, test.now))
		})
	}
}

func TestRulesNoted(t *testing.T) {
	t.Parallel()
	r := userstate.DefaultRules()
	state := seen(epoch)
	marked, unraised := state, state
	marked.Mark, unraised.Horizon = &userstate.Mark{From: epoch}, state.Horizon.Add(-day)
	for _, test := range []struct {
		name  string
		state userstate.State
		ago   time.Duration
		every time.Duration
		noted bool
	}{
		{"just viewed", state, 0, time.Hour, true},
		{"viewed by a clock ahead", state, -time.Minute, time.Hour, true},
		{"just within", state, time.Hour - 1, time.Hour, true},
		{"an hour ago", state, time.Hour, time.Hour, false},
		{"each view", state, 0, 0, false},
		{"a day ago: the horizon has to rise", state, 23 * time.Hour, 48 * time.Hour, false},
		{"the horizon has to rise, whenever it was viewed", unraised, time.Minute, time.Hour, false},
		{"marked", marked, time.Minute, time.Hour, false},
		{"dormant", state, 31 * day, 365 * day, false},
		{"never seen", seen(time.Time{}), 0, time.Hour, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, test.noted, r.Noted(test.state, epoch.Add(test.ago), test.every))
		})
	}
}

package userstate_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/userstate"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

const day = 24 * time.Hour

func seen(at time.Time) userstate.State { return userstate.State{User: "ann", LastViewed: at} }

func TestPolicyValidate(t *testing.T) {
	t.Parallel()
	require.NoError(t, userstate.DefaultPolicy().Validate())
	for _, test := range []struct {
		name   string
		policy userstate.Policy
		valid  bool
	}{
		{"just four times", userstate.Policy{DormantAfter: 4 * time.Minute, ClockTolerance: time.Minute}, true},
		{"under four times", userstate.Policy{DormantAfter: 4*time.Minute - 1, ClockTolerance: time.Minute}, false},
		{"no tolerance", userstate.Policy{DormantAfter: day}, false},
		{"a tolerance below zero", userstate.Policy{DormantAfter: day, ClockTolerance: -time.Minute}, false},
		{"nothing", userstate.Policy{}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, test.valid, test.policy.Validate() == nil)
		})
	}
}

func TestPolicyHorizon(t *testing.T) {
	t.Parallel()
	p := userstate.DefaultPolicy()
	require.Equal(t, epoch.Add(30*day), p.Horizon(seen(epoch)))
	require.Zero(t, p.Horizon(seen(time.Time{})), "a user never seen has none")
}

func TestPolicyDeliver(t *testing.T) {
	t.Parallel()
	p := userstate.DefaultPolicy()
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
			require.Equal(t, test.deliver, p.Deliver(test.state, test.sent))
		})
	}
}

func TestPolicyActive(t *testing.T) {
	t.Parallel()
	p := userstate.DefaultPolicy()
	edge := epoch.Add(30*day - p.ClockTolerance) // the horizon with the tolerance to spare
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
			require.Equal(t, test.active, p.Active(test.state, test.now))
			if test.state.Known() {
				require.Equal(t, test.active, test.state.LastViewed.After(p.ActiveSince(test.now)), "ActiveSince says the same")
			}
		})
	}
}

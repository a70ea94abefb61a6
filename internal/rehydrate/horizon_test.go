package rehydrate_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/rehydrate"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

// storeBy stores a message whose time the store's clock accepts, whatever it is: that clock jumps as the publisher's does.
func (w *world) storeBy(t *testing.T, sent time.Time) message.Message {
	t.Helper()
	w.sent++
	m := message.Message{ID: message.MinID(sent), From: "author", Audience: message.AudienceFollowers, Body: "jumped"}
	m.ID[6], m.ID[8], m.ID[15] = 0x70, 0x80, byte(w.sent)
	_, err := w.Messages.Insert(t.Context(), []message.Message{m}, message.Timing{Slack: message.MaxSlack, Tolerance: 1000 * time.Hour})
	require.NoError(t, err)
	return m
}

// A clock jumps, and nothing is lost: a raise of the horizon leaves a debt from the old one.
func TestClocksThatJump(t *testing.T) {
	t.Parallel()
	const jump = 10 * rig.ClockTolerance
	for name, test := range map[string]struct {
		away  time.Duration // the true time of the message, after ann was seen
		ahead time.Duration // the jump of the publisher and of the store
		later time.Duration // the true time from the message to the login
		host  time.Duration // the jump of the login's host
	}{
		"publisher and store ahead":                   {away: rig.DormantAfter / 2, ahead: rig.DormantAfter/2 + jump, later: jump},
		"the login's host behind":                     {away: rig.DormantAfter + jump, host: -jump - 2*rig.ClockTolerance},
		"the login's host ahead":                      {away: jump, ahead: rig.DormantAfter, host: rig.DormantAfter},
		"publisher, store and the login's host ahead": {away: rig.DormantAfter / 2, ahead: rig.DormantAfter, host: rig.DormantAfter / 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.Clock.Advance(test.away)
			w.fanOut(t, w.storeBy(t, w.now().Add(test.ahead)))
			w.Clock.Advance(test.later)
			s := w.Rehydrator(test.host, 0)
			_, err := s.Login(t.Context(), "ann", w.now().Add(test.host), 0)
			require.NoError(t, err)
			s.Work(t.Context())
			for range 3 { // time passes, and ann looks
				w.Clock.Advance(rig.DormantAfter / 2)
				right := w.Rehydrator(0, 0)
				w.login(t, right)
				w.rest(t, right)
			}
		})
	}
}

// A change of dormant_after affects later views only.
func TestDormantAfterChanges(t *testing.T) {
	t.Parallel()
	t.Run("raised", func(t *testing.T) {
		t.Parallel()
		w := newDormantWorld(t) // and ann has missed a message
		w.Rules.DormantAfter = 3 * rig.DormantAfter
		s := w.Rehydrator(0, 0)
		result, err := s.Login(t.Context(), "ann", w.now(), 0)
		require.NoError(t, err)
		require.Equal(t, rehydrate.WasDormant, result.Was)
		w.rest(t, s)
	})
	t.Run("lowered", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.Clock.Advance(rig.DormantAfter / 2)
		w.sendSome(t, 5)
		w.Rules.DormantAfter = rig.DormantAfter / 4
		w.sendSome(t, 5)
		w.Clock.Advance(rig.DormantAfter)
		w.sendSome(t, 5)
		s := w.Rehydrator(0, 2)
		w.login(t, s)
		w.rest(t, s)
		st := w.State(t.Context(), t, "ann")
		require.Len(t, st.Gaps, 1)
		require.EqualValues(t, 3, st.Gaps[0].Messages, "the gap covers no message that was copied")
	})
}

// A view of an active user is one operation. Once in a 32nd of dormant_after it raises the horizon, and the debt ends at once.
func TestCostOfAView(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.Rehydrator(0, 0)
	view := func() []string {
		a := rig.Start(t.Context(), rig.None, 0, func(ctx context.Context) error {
			result, err := s.Login(ctx, "ann", w.now(), 0)
			require.True(t, result.Done || err != nil)
			return err
		})
		require.True(t, a.Finished())
		require.NoError(t, a.Err())
		require.False(t, w.State(t.Context(), t, "ann").Rehydrating())
		return a.Trace()
	}
	w.Clock.Advance(rig.DormantAfter / 32)
	raise := []string{"View", "StepState", "AnyAfter", "StepState"}
	require.Equal(t, raise, view())
	w.Clock.Advance(rig.DormantAfter/32 - 2*time.Millisecond)
	w.send(t)
	require.Equal(t, []string{"View"}, view())
	require.Equal(t, rig.Epoch.Add(rig.DormantAfter+rig.DormantAfter/32), w.State(t.Context(), t, "ann").Horizon)
	w.Clock.Advance(time.Millisecond)
	require.Equal(t, raise, view())
	w.rest(t, s)
}

// The store fails after the raise has taken effect. The login succeeds, and a sweep ends the debt.
func TestLoginSucceedsWhenTheEndOfARaiseFails(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fault     rig.Fault
		operation string
		nth       int
	}{
		"the look":                              {rig.FailBefore, "AnyAfter", 0},
		"the end":                               {rig.FailBefore, "StepState", 1},
		"the end, although it has taken effect": {rig.FailAfter, "StepState", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s := w.Rehydrator(0, 0)
			w.Clock.Advance(rig.DormantAfter / 2)
			a := rig.StartAt(t.Context(), test.fault, test.operation, test.nth, func(ctx context.Context) error { return login(ctx, w, s) })
			require.True(t, a.Finished())
			require.NoError(t, a.Err())
			w.rest(t, s)
		})
	}
}

// A gap has to be counted again between the look of a raise for later messages and its end. The count is not lost.
func TestEndOfARaiseLeavesTheCountOfAGap(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fault     rig.Fault
		operation string
	}{
		"before the raise":      {rig.StallAfter, "View"},
		"after the raise":       {rig.StallBefore, "AnyAfter"},
		"before the raise ends": {rig.StallAfter, "AnyAfter"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newDormantWorld(t)
			w.sendSome(t, 5)
			late := w.now()
			w.sendSome(t, 5)
			s := w.Rehydrator(0, 2)
			w.login(t, s)
			w.rest(t, s)
			w.Clock.Advance(rig.DormantAfter / 2)
			a := rig.StartAt(t.Context(), test.fault, test.operation, 0, func(ctx context.Context) error { return login(ctx, w, s) })
			w.fanOut(t, w.storeBy(t, late))
			require.NotNil(t, w.State(t.Context(), t, "ann").Sweep)
			a.Resume(rig.None, 0)
			require.NoError(t, a.Err())
			w.rest(t, s)
			require.EqualValues(t, 10, w.State(t.Context(), t, "ann").Gaps[0].Messages)
		})
	}
}

// A view of an old time does not lower the horizon. The horizon stays above all that was delivered, so that no later gap covers it.
func TestHorizonNeverFalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Clock.Advance(rig.DormantAfter / 2)
	w.sendSome(t, 5)
	const behind = -rig.DormantAfter
	_, err := w.Rehydrator(behind, 0).Login(t.Context(), "ann", w.now().Add(behind), 0)
	require.NoError(t, err)
	require.Equal(t, rig.Epoch.Add(rig.DormantAfter), w.State(t.Context(), t, "ann").Horizon)
	w.Clock.Advance(2 * rig.DormantAfter)
	w.sendSome(t, 5)
	s := w.Rehydrator(0, 2)
	w.login(t, s)
	w.rest(t, s)
}

// A dormant user is given a time just after that of the last view. The horizon gains less than a raise for an active user needs, and
// fan-out has skipped messages all the same.
func TestDormantUserGetsAMarkWhateverTheHorizonGains(t *testing.T) {
	t.Parallel()
	for name, gain := range map[string]time.Duration{"a little": time.Millisecond, "nothing": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newDormantWorld(t)
			s := w.Rehydrator(0, 0)
			result, err := s.Login(t.Context(), "ann", rig.Epoch.Add(gain), 0)
			require.NoError(t, err)
			require.Equal(t, rehydrate.Result{Was: rehydrate.WasDormant}, result)
			st := w.State(t.Context(), t, "ann")
			require.Equal(t, &userstate.Mark{From: rig.Epoch.Add(rig.DormantAfter)}, st.Mark)
			require.Equal(t, rig.Epoch.Add(rig.DormantAfter+gain), st.Horizon)
			require.True(t, s.Work(t.Context()))
			w.login(t, s)
			w.rest(t, s)
		})
	}
}

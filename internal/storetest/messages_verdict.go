package storetest

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// rules returns rules with a publish slack.
func rules(slack time.Duration) userstate.Rules {
	r := userstate.DefaultRules()
	r.PublishSlack, r.ClockTolerance = slack, time.Minute
	return r
}

// openAt opens an empty database. after sets its clock, as a duration after the time of messagetest.ID(0).
func (s messageSuite) openAt(t *testing.T) (h messageStore, after *atomic.Int64) {
	t.Helper()
	after = new(atomic.Int64)
	return s.of(s.backend.NewAt(t, func() time.Time { return epoch.Add(time.Duration(after.Load())) })), after
}

// requireVerdict requires that all reads of a message return the same verdict.
func (h messageStore) requireVerdict(t *testing.T, void bool, storedAt time.Time, m message.Message) {
	t.Helper()
	want := message.Stamp{StoredAt: storedAt, Void: void}
	found, err := h.Messages.GetMany(t.Context(), []message.Ref{m.Ref()})
	require.NoError(t, err)
	got, err := h.Messages.Get(t.Context(), message.Ref{ID: m.ID})
	require.NoError(t, err)
	for _, stored := range append([]message.Stored{got, found[0].Stored}, h.toFollowers(t, m.From)...) {
		require.Equal(t, message.Stored{Message: m, Stamp: want}, stored)
		require.Equal(t, void && storedAt.Before(m.Sent()), stored.FromFuture())
	}
	count, err := h.Messages.CountToFollowers(t.Context(), []message.Range{{From: m.From.Source(), Before: message.MaxID}})
	require.NoError(t, err)
	require.Equal(t, void, count == 0)
}

func (s messageSuite) verdictIsDecided(t *testing.T) {
	t.Parallel()
	h, after := s.openAt(t)
	const slack, tolerance = 2 * time.Minute, time.Minute
	for i, test := range []struct {
		stored time.Duration // after it was sent
		void   bool
	}{
		{0, false},
		{slack - time.Millisecond, false},
		{slack, false},
		{slack + time.Millisecond, true},
		{365 * 24 * time.Hour, true},
		{-time.Millisecond, false},
		{-tolerance, false},
		{-tolerance - time.Millisecond, true},
		{-365 * 24 * time.Hour, true},
	} {
		t.Run(fmt.Sprint("stored after ", test.stored), func(t *testing.T) {
			m := messagetest.Message(0, message.UserID(fmt.Sprint("author-", i)))
			m.ID[15] = byte(i) //nolint:gosec // a few
			after.Store(int64(test.stored))
			stamps, err := h.Messages.Insert(t.Context(), []message.Message{m}, rules(slack).Timing())
			require.NoError(t, err)
			storedAt := epoch.Add(test.stored)
			require.Equal(t, storedAt, stamps[0].StoredAt)
			require.Equal(t, test.void, stamps[0].Void)
			h.requireVerdict(t, test.void, storedAt, m)
		})
	}
	m := messagetest.Message(0, "far")
	m.ID[0] = 0xff // the difference to the clock overflows a time.Duration
	after.Store(0)
	_, err := h.Messages.Insert(t.Context(), []message.Message{m}, rules(slack).Timing())
	require.NoError(t, err)
	h.requireVerdict(t, true, epoch, m)
}

func (s messageSuite) verdictIsKept(t *testing.T) {
	t.Parallel()
	for _, void := range []bool{false, true} {
		h, after := s.openAt(t)
		m := messagetest.Message(0, "ann")
		inTime, late := rules(2*time.Minute).Timing(), 90*time.Second
		if void {
			late = -time.Hour
		}
		after.Store(int64(late))
		first, err := h.Messages.Insert(t.Context(), []message.Message{m}, inTime)
		require.NoError(t, err)
		for _, then := range []time.Duration{0, -time.Hour, time.Hour} {
			after.Store(int64(then))
			again, err := h.Messages.Insert(t.Context(), []message.Message{m}, inTime)
			require.NoError(t, err)
			require.Equal(t, first, again)
			together, err := h.Messages.Insert(t.Context(), []message.Message{m, messagetest.Message(1, "bob")}, inTime)
			require.NoError(t, err)
			require.Equal(t, first[0], together[0])
			h.requireVerdict(t, void, epoch.Add(late), m)
		}
		h = h.Reopen(t)
		h.requireVerdict(t, void, epoch.Add(late), m)
	}
}

func (s messageSuite) verdictIsNotJudgedAgain(t *testing.T) {
	t.Parallel()
	h, after := s.openAt(t)
	after.Store(int64(90 * time.Second))
	for from, slack := range map[message.UserID]time.Duration{"ann": 2 * time.Minute, "bob": time.Minute} {
		m := messagetest.Message(0, from)
		m.ID[15] = from[0]
		_, err := h.Messages.Insert(t.Context(), []message.Message{m}, rules(slack).Timing())
		require.NoError(t, err)
		h.requireVerdict(t, slack == time.Minute, epoch.Add(90*time.Second), m)
	}
}

func (s messageSuite) futureIsFinished(t *testing.T) {
	t.Parallel()
	h, after := s.openAt(t)
	messages := []message.Message{messagetest.Message(1, "ann"), messagetest.Message(2, "ann"), messagetest.Message(3, "ann")}
	for i, at := range []time.Duration{0, time.Hour, -time.Hour} { // valid, late, from the future
		after.Store(int64(at))
		_, err := h.Messages.Insert(t.Context(), messages[i:i+1], rules(2*time.Minute).Timing())
		require.NoError(t, err)
	}
	unfinished, err := h.Messages.Unfinished(t.Context(), message.ID{}, message.MaxID, 100)
	require.NoError(t, err)
	require.Equal(t, []message.Ref{messages[0].Ref(), messages[1].Ref()}, unfinished)
	for i, e := range h.endings(t, messages[0].Ref(), messages[1].Ref(), messages[2].Ref()) {
		require.Equal(t, message.Ending{Ref: messages[i].Ref(), Void: i > 0}, e)
	}
}

func (h messageStore) anyAfter(t *testing.T, after message.ID) bool {
	t.Helper()
	found, err := h.Messages.AnyAfter(t.Context(), after)
	require.NoError(t, err)
	return found
}

func (s messageSuite) anyAfter(t *testing.T) {
	t.Parallel()
	h, _ := s.openAt(t)
	require.False(t, h.anyAfter(t, message.ID{}), "there is none")
	valid := []message.Message{messagetest.Message(3, "ann"), messagetest.Message(1, "ben"), messagetest.Message(2, "zoe")}
	void := []message.Message{messagetest.Message(4, "ann"), messagetest.Message(5, "ben")}
	_, err := h.Messages.Insert(t.Context(), valid, message.Timing{Slack: message.MaxSlack, Tolerance: time.Hour})
	require.NoError(t, err)
	_, err = h.Messages.Insert(t.Context(), void, message.Timing{Slack: -time.Hour, Tolerance: -time.Hour})
	require.NoError(t, err)
	require.True(t, h.anyAfter(t, message.ID{}))
	require.True(t, h.anyAfter(t, messagetest.ID(2)), "that of another author")
	require.False(t, h.anyAfter(t, messagetest.ID(3)), "all others are void")
}

func (s messageSuite) anyAfterMany(t *testing.T) {
	t.Parallel()
	h, _ := s.openAt(t)
	void := make([]message.Message, message.AnyAfterLooks)
	for i := range void {
		void[i] = messagetest.Message(i+1, "ann")
	}
	_, err := h.Messages.Insert(t.Context(), void, message.Timing{Slack: -time.Hour, Tolerance: -time.Hour})
	require.NoError(t, err)
	require.False(t, h.anyAfter(t, void[0].ID))
	require.True(t, h.anyAfter(t, message.ID{}))
}

package following_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

// fill makes ann's edge to the author full. A span takes a millisecond. It calls in with each span while the span is open.
func (w *world) fill(t *testing.T, in func(span int)) []follow.Span {
	t.Helper()
	for n := range follow.MaxSpans {
		_, err := w.Edges.Follow(t.Context(), pair("ann"), w.Clock.Now())
		require.NoError(t, err)
		in(n)
		w.Clock.Advance(time.Millisecond)
		require.NoError(t, w.Edges.Unfollow(t.Context(), pair("ann")[0], w.Clock.Now()))
		w.Clock.Advance(time.Millisecond)
	}
	return w.spans(t)
}

func (w *world) spans(t *testing.T) []follow.Span {
	t.Helper()
	edges, err := w.Edges.Get(t.Context(), pair("ann"))
	require.NoError(t, err)
	return edges[0].Spans
}

func (w *world) requireFull(t *testing.T, skew time.Duration, spans []follow.Span) {
	t.Helper()
	err := w.Following(skew).Follow(t.Context(), append(pair("ann"), pair("bob")...))
	require.Equal(t, follow.RefusedError{pair("ann")[0]: &follow.FullError{Pair: pair("ann")[0]}}, err)
	require.Equal(t, spans, w.spans(t))
	edges, err := w.Edges.Get(t.Context(), pair("bob"))
	require.NoError(t, err)
	require.True(t, edges[0].Open(), "the other pair follows")
}

// settle is the time after which no message can appear in a span that has ended.
const settle = rig.Slack + rig.ClockTolerance

func TestSpansAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var sent message.ID
	before := w.fill(t, func(span int) {
		if span == 3 {
			sent = w.publish(t)
		}
	})
	require.Len(t, before, follow.MaxSpans)
	w.requireFull(t, 0, before)

	w.Clock.Advance(settle) // the author is silent
	require.NoError(t, w.Following(0).Follow(t.Context(), pair("ann")))
	want := []follow.Span{before[3], before[follow.MaxSpans-1], {Since: w.Clock.Now()}}
	require.Equal(t, want, w.spans(t))
	require.True(t, want[0].Holds(sent.Time()))
}

// A message may become visible until PublishSlack after it was sent, by the clock of the store. Neither clock alone can tell that this
// time is over.
func TestSpansOfLateMessagesStay(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		passed time.Duration // until the author's next message is stored
		age    time.Duration // of that message then
		skew   time.Duration // of the process
	}{
		"before the slack has passed":       {passed: rig.Slack / 2},
		"before the tolerance has passed":   {passed: rig.Slack + time.Millisecond},
		"by a process whose clock is ahead": {passed: rig.Slack / 2, skew: time.Hour},
		"by a process whose clock lags":     {passed: settle + time.Second, age: rig.Slack, skew: -rig.Slack},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			spans := w.fill(t, func(int) {})
			w.Clock.Advance(test.passed)
			w.publishSent(t, w.Clock.Now().Add(-test.age))
			w.requireFull(t, test.skew, spans)
		})
	}
}

// Spans that hold no time hold no message, whatever the clocks say.
func TestEmptySpansAreDropped(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range follow.MaxSpans {
		_, err := w.Edges.Follow(t.Context(), pair("ann"), w.Clock.Now())
		require.NoError(t, err)
		require.NoError(t, w.Edges.Unfollow(t.Context(), pair("ann")[0], w.Clock.Now()))
	}
	require.NoError(t, w.Following(0).Follow(t.Context(), pair("ann")))
	require.Len(t, w.spans(t), 2)
}

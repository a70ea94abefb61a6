package retention_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/retention"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

const canonical = 2 * day

// collected is a world in which messages expire when they are a day old, and canonical ones are kept for two.
type collected struct {
	*agedWorld
	keysUntil time.Time
	walker    *retention.Walker
}

func newCollected(t *testing.T) *collected {
	t.Helper()
	w := &collected{agedWorld: newAgedWorld(t)}
	w.Clock.Advance(100 * day)
	w.walker = retention.New(w.RetentionStores(), nil, w.options())
	return w
}

func (w *collected) options() retention.Options {
	opts := w.RetentionOptions(0)
	opts.Canonical, opts.KeysUntil = func() time.Duration { return canonical }, func() time.Time { return w.keysUntil }
	return opts
}

// round returns a round that has proven a mark of that age.
func (w *collected) round(age time.Duration) retention.Round {
	return retention.Round{Number: 3, Proven: 3, Ended: true, AsOf: w.Clock.Now(), LowWater: message.LastBefore(w.Clock.Now().Add(-age))}
}

// ended stores a message of an age whose fan-out had ended in a round.
func (w *collected) ended(t *testing.T, age time.Duration, closed int64) message.Ref {
	t.Helper()
	ref := message.Ref{From: "author", ID: w.store(t, age)}
	require.NoError(t, w.Messages.Conclude(t.Context(), []message.Ending{{Ref: ref, Closed: closed}}))
	return ref
}

func (w *collected) stored(t *testing.T, ref message.Ref) bool {
	t.Helper()
	found, err := w.Messages.GetMany(t.Context(), []message.Ref{ref})
	require.NoError(t, err)
	if found[0].Err != nil {
		require.ErrorIs(t, found[0].Err, message.ErrNotFound)
	}
	return found[0].Err == nil
}

// void stores a message that became visible too late, and finishes it as a router does.
func (w *collected) void(t *testing.T, age time.Duration) message.Ref {
	t.Helper()
	w.sent++
	m := message.Message{ID: message.MinID(w.Clock.Now().Add(-age)), From: "author", To: []message.UserID{"ann"}, Body: "late"}
	m.ID[6], m.ID[8], m.ID[15] = 0x70, 0x80, w.sent
	stamps, err := w.Messages.Insert(t.Context(), []message.Message{m}, message.Timing{Slack: time.Minute, Tolerance: time.Minute})
	require.NoError(t, err)
	require.True(t, stamps[0].Void)
	require.NoError(t, w.Messages.Conclude(t.Context(), []message.Ending{{Ref: m.Ref()}}))
	return m.Ref()
}

func TestMessagesAreRemovedThatNobodyNeeds(t *testing.T) {
	t.Parallel()
	w := newCollected(t)
	old, kept := canonical+time.Hour, canonical+rig.Rules().ClockTolerance+rig.Rules().PublishSlack
	goes := map[string]message.Ref{
		"ended before the round":     w.ended(t, old, 2),
		"never delivered, too late":  w.void(t, old),
		"older than it must be kept": w.ended(t, kept+time.Millisecond, 0),
	}
	unfinished := message.Ref{From: "author", ID: w.store(t, old)}
	stays := map[string]message.Ref{
		"ended during the round":       w.ended(t, old, 3),
		"younger than it must be kept": w.ended(t, kept, 2),
		"not delivered":                unfinished,
	}
	w.keysUntil = w.Clock.Now().Add(time.Millisecond)
	w.walker.CollectNow(t.Context(), w.round(day))
	for name, ref := range goes {
		require.True(t, w.stored(t, ref), "%s: an idempotency key may name it", name)
	}
	w.keysUntil = w.Clock.Now()
	w.walker.CollectNow(t.Context(), w.round(old+time.Millisecond))
	require.True(t, w.stored(t, goes["ended before the round"]), "it is above the low-water mark")
	keep := w.Retention.Swap(&userstate.Retention{})
	w.walker.CollectNow(t.Context(), w.round(day))
	require.True(t, w.stored(t, goes["ended before the round"]), "messages do not expire any more")
	w.Retention.Store(keep)
	for range 2 {
		w.walker.CollectNow(t.Context(), w.round(day))
		for name, ref := range goes {
			require.False(t, w.stored(t, ref), name)
		}
		for name, ref := range stays {
			require.True(t, w.stored(t, ref), name)
		}
	}
}

func TestEdgesAreRemovedThatNobodyNeeds(t *testing.T) {
	t.Parallel()
	w := newCollected(t)
	now := w.Clock.Now()
	edge := func(follower message.UserID, until ...time.Time) follow.Pair {
		p := follow.Pair{Follower: follower, Followee: "star"}
		for i, at := range until {
			_, err := w.Edges.Follow(t.Context(), []follow.Pair{p}, rig.Epoch.Add(time.Duration(i)*time.Millisecond))
			require.NoError(t, err)
			if !at.IsZero() {
				require.NoError(t, w.Edges.Unfollow(t.Context(), p, at))
			}
		}
		return p
	}
	mark := w.round(day).LowWater.Time()
	all := []follow.Pair{
		edge("ended before", mark), edge("ended after", mark.Add(time.Millisecond)), edge("open", time.Time{}),
		edge("ended again", mark.Add(-time.Hour), mark.Add(time.Millisecond)), edge("open again", mark.Add(-time.Hour), time.Time{}),
	}
	left := func() (followers []message.UserID) {
		edges, err := w.Edges.Get(t.Context(), all)
		require.NoError(t, err)
		for _, e := range edges {
			if len(e.Spans) > 0 {
				followers = append(followers, e.Follower)
			}
		}
		return followers
	}
	w.Retention.Store(&userstate.Retention{Newest: 10})
	w.walker.CollectNow(t.Context(), w.round(day))
	require.Len(t, left(), len(all), "messages do not expire by age")
	w.Retention.Store(&userstate.Retention{MaxAge: day})
	w.walker.CollectNow(t.Context(), retention.Round{Number: 1, Ended: true})
	require.Len(t, left(), len(all), "there is no low-water mark")
	dead := w.store(t, day+2*time.Millisecond)
	_, err := w.Progress.Plan(t.Context(), dead, "medium", []int{0}, rig.Epoch)
	require.NoError(t, err)
	w.walker.CollectNow(t.Context(), w.round(day))
	require.Len(t, left(), len(all), "a dead letter may still be redriven")
	require.NoError(t, w.Progress.Remove(t.Context(), []message.ID{dead}))
	w.Clock.Advance(day)
	w.walker.CollectNow(t.Context(), retention.Round{Ended: true, AsOf: w.Clock.Now(), LowWater: message.LastBefore(mark.Add(time.Millisecond))})
	require.Equal(t, []message.UserID{"ended after", "open", "ended again", "open again"}, left())

	late := now.Add(-2*rig.Rules().ClockTolerance + time.Millisecond)
	all = append(all, edge("ended just now", late))
	w.walker.CollectNow(t.Context(), w.round(0))
	require.Len(t, left(), 5, "all edges were looked at a moment ago")
	w.Clock.Advance(day - time.Millisecond)
	w.walker.CollectNow(t.Context(), w.round(0))
	require.Len(t, left(), 5)
	w.Clock.Advance(time.Millisecond)
	require.NoError(t, w.Edges.Unfollow(t.Context(), all[2], w.Clock.Now().Add(-2*rig.Rules().ClockTolerance+time.Millisecond)))
	w.walker.CollectNow(t.Context(), w.round(0))
	require.Equal(t, []message.UserID{"open", "open again"}, left(), "a change of the first may still be under way")
}

// TestNothingIsLeft writes more plans, messages and edges than are read together, and ends them.
func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	const many = 1_200
	w := newCollected(t)
	var messages []message.Message
	var pairs []follow.Pair
	for n := range many {
		m := message.Message{ID: message.MinID(w.Clock.Now().Add(-canonical - time.Hour)), From: "author", Audience: message.AudienceFollowers, Body: "body"}
		m.ID[6], m.ID[8], m.ID[14], m.ID[15] = 0x70, 0x80, byte(n>>8), byte(n)
		messages = append(messages, m)
		pairs = append(pairs, follow.Pair{Follower: message.UserID(fmt.Sprint("fan", n)), Followee: "star"})
	}
	_, err := w.Messages.Insert(t.Context(), messages, message.Timing{Slack: message.MaxSlack, Tolerance: message.MaxSlack})
	require.NoError(t, err)
	_, err = w.Edges.Follow(t.Context(), pairs, rig.Epoch)
	require.NoError(t, err)
	for n, m := range messages {
		_, err := w.Progress.Plan(t.Context(), m.ID, "medium", nil, rig.Epoch) // nobody is to get it
		require.NoError(t, err)
		require.NoError(t, w.Edges.Unfollow(t.Context(), pairs[n], rig.Epoch.Add(time.Hour)))
	}
	w.walker.CollectNow(t.Context(), w.round(day))
	old, err := w.Messages.Oldest(t.Context(), message.ID{}, message.MaxID, many)
	require.NoError(t, err)
	require.Empty(t, old)
	plans, err := w.Progress.List(t.Context(), message.ID{}, message.MaxID, many)
	require.NoError(t, err)
	require.Empty(t, plans)
	ended, _, err := w.Edges.Ended(t.Context(), "", w.Clock.Now(), many)
	require.NoError(t, err)
	require.Empty(t, ended)
}

// stopping is a follow.Store that fails after so many pages, and counts them.
type stopping struct {
	follow.Store
	pages, left int
}

func (s *stopping) Ended(ctx context.Context, place string, by time.Time, limit int) ([]follow.Edge, string, error) {
	if s.left--; s.left < 0 {
		return nil, "", errors.New("away")
	}
	s.pages++
	return s.Store.Ended(ctx, place, by, limit)
}

// A collection of edges that fails goes on where it was.
func TestEdgesGoOnAfterAFailure(t *testing.T) {
	t.Parallel()
	w := newCollected(t)
	const many = 3500 // four pages
	var pairs []follow.Pair
	for n := range many {
		pairs = append(pairs, follow.Pair{Follower: message.UserID(fmt.Sprintf("fan%04d", n)), Followee: "star"})
	}
	_, err := w.Edges.Follow(t.Context(), pairs, rig.Epoch)
	require.NoError(t, err)
	edges := &stopping{Store: w.Edges, left: 2}
	stores := w.RetentionStores()
	stores.Edges = edges
	walker := retention.New(stores, nil, w.options())
	walker.CollectNow(t.Context(), w.round(day))
	require.Equal(t, 2, edges.pages)
	edges.left = many
	walker = retention.New(stores, nil, w.options()) // of another process
	walker.CollectNow(t.Context(), w.round(day))
	require.Equal(t, 4, edges.pages)
	walker.CollectNow(t.Context(), w.round(day))
	require.Equal(t, 4, edges.pages, "it was at the end a moment ago")
}

// visited is a follow.Store that tells when edges are looked at.
type visited struct {
	follow.Store
	looks chan<- struct{}
}

func (v visited) Ended(ctx context.Context, place string, by time.Time, limit int) ([]follow.Edge, string, error) {
	v.looks <- struct{}{}
	return v.Store.Ended(ctx, place, by, limit)
}

// The walk does not wait for what a round lets be removed, and neither do other records and edges for each other. Of rounds that end meanwhile,
// the last counts.
func TestCollectRuns(t *testing.T) {
	t.Parallel()
	w := newCollected(t)
	marks, proceed, looks := make(chan message.ID), make(chan struct{}), make(chan struct{})
	stores, opts := w.RetentionStores(), w.options()
	stores.Edges = visited{w.Edges, looks}
	opts.Letters = func(_ context.Context, lowWater message.ID) (int, error) {
		marks <- lowWater
		<-proceed
		return 0, nil
	}
	walker := retention.New(stores, nil, opts)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { walker.Collect(ctx, t.Context()) })
	walker.Due(w.round(3 * day))
	require.Equal(t, w.round(3*day).LowWater, <-marks)
	running.Go(func() { walker.CollectEdges(ctx, t.Context()) })
	<-looks // while the letters are being removed
	walker.Due(w.round(2 * day))
	walker.Due(w.round(day))
	proceed <- struct{}{}
	require.Equal(t, w.round(day).LowWater, <-marks)
	proceed <- struct{}{}
	stop()
	running.Wait()
}

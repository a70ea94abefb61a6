package topics_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/panics"
	"github.com/fanmail/fanmail/internal/topics"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/topic"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

// insert writes a topic as a call does that dies before it has looked at the topic above.
func (w *world) insert(t *testing.T, path string) {
	t.Helper()
	r := topic.Record{Topic: message.Topic(path), Number: topic.NewNumber(), Parent: 7}
	above, err := w.Topics.Get(t.Context(), []message.Topic{r.Topic.Parent()})
	require.NoError(t, err)
	if above[0].Number != 0 {
		r.Parent = above[0].Number
	}
	_, err = w.Topics.Step(t.Context(), []topic.Change{{From: topic.Record{Topic: r.Topic}, To: r}})
	require.NoError(t, err)
}

// request is a request of somebody.
type request struct {
	name string
	do   func(ctx context.Context, s *topics.Service) error
}

var (
	createRoot = request{"create a", func(ctx context.Context, s *topics.Service) error {
		_, err := s.Create(ctx, "a", false)
		return err
	}}
	createChild = request{"create a/b", func(ctx context.Context, s *topics.Service) error {
		_, err := s.Create(ctx, message.Topic("a/b"), false)
		return err
	}}
	createBatch = request{"create a/b in a batch", func(ctx context.Context, s *topics.Service) error {
		errs, err := s.CreateAll(ctx, []message.Topic{message.Topic("a/b")})
		if err != nil {
			return err
		}
		return errs[0]
	}}
	createBoth = request{"create a/b with parents", func(ctx context.Context, s *topics.Service) error {
		_, err := s.Create(ctx, message.Topic("a/b"), true)
		return err
	}}
	deleteRoot = request{"delete a", func(ctx context.Context, s *topics.Service) error { return s.Delete(ctx, "a") }}
	subscribed = request{"subscribe to a", func(ctx context.Context, s *topics.Service) error {
		return subscribe(ctx, s, subscription("ann", "a"))
	}}
)

// answered are the requests of a schedule that were answered without an error.
type answered []string

func (a answered) done(r request) bool { return slices.Contains(a, r.name) }

// check demands what must hold when no request is under way.
func (w *world) check(t *testing.T, o answered, all []request) {
	t.Helper()
	list, mine := w.list(t), w.of(t, "ann")
	for _, path := range list {
		above := string(message.Topic(path).Parent())
		require.True(t, above == "" || slices.Contains(list, above), "%s without the topic above: %v", path, list)
	}
	for _, path := range mine {
		require.Contains(t, list, path, "a subscription to a topic that is gone")
	}
	if o.done(subscribed) {
		require.Contains(t, list, "a", "a topic is gone, and the user was told that they are subscribed")
		require.Contains(t, mine, "a", "the subscription is undone that the user was told of")
	}
	for _, r := range []request{createChild, createBatch, createBoth} {
		if o.done(r) {
			require.Contains(t, list, "a/b", r.name)
		}
	}
	creates := slices.ContainsFunc(all, func(r request) bool { return r.name == createRoot.name || r.name == createBoth.name })
	if o.done(deleteRoot) && !creates {
		require.NotContains(t, list, "a", "it was deleted")
	}
}

// finish uses what the requests left, and demands that nothing is left of them then.
func (w *world) finish(t *testing.T) {
	t.Helper()
	for _, path := range []message.Topic{"a", message.Topic("a/b")} {
		if err := w.service().Get(t.Context(), path); err != nil {
			require.ErrorIs(t, err, topics.ErrNotFound)
		}
	}
	require.NoError(t, w.service().Unsubscribe(t.Context(), subscription("ann", "a")))
	for _, path := range []message.Topic{message.Topic("a/b"), "a"} {
		require.NoError(t, w.service().Delete(t.Context(), path), "nothing is below it, and nobody is subscribed")
	}
	records, err := w.Topics.List(t.Context(), "", "", 10)
	require.NoError(t, err)
	require.Empty(t, records)
}

// TestSchedules stops each request before each of its calls of a store, carries out others, and lets it go on or die.
func TestSchedules(t *testing.T) {
	t.Parallel()
	first := []request{createRoot, createChild, createBatch, createBoth, deleteRoot, subscribed}
	var others [][]request
	for _, x := range first {
		others = append(others, []request{x})
		for _, y := range first {
			others = append(others, []request{x, y})
		}
	}
	others = append(others,
		[]request{deleteRoot, createRoot, subscribed}, []request{deleteRoot, createBoth, deleteRoot}, []request{subscribed, deleteRoot, createRoot},
		[]request{createChild, subscribed, deleteRoot})
	for _, one := range first {
		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			for _, among := range others {
				for _, fault := range []rig.Fault{rig.StallBefore, rig.DieBefore} {
					for n, hurt := 0, true; hurt; n++ {
						hurt = schedule(t, one, among, fault, n)
					}
				}
			}
		})
	}
}

// schedule carries out one schedule. It returns false if the first request has no such call.
func schedule(t *testing.T, first request, among []request, fault rig.Fault, n int) (hurt bool) {
	t.Helper()
	name := fmt.Sprintf("%s, %d before call %d, then", first.name, fault, n)
	w := newWorld(t)
	defer func() { require.NoError(t, w.Close()) }()
	w.create(t, "a")
	var o answered
	actor := rig.Start(t.Context(), fault, n, func(ctx context.Context) error {
		return panics.Do(func() error { return first.do(ctx, w.service()) })
	})
	if actor.Finished() && !actor.Died() {
		return false
	}
	for _, r := range among {
		name += " " + r.name
		if r.do(t.Context(), w.service()) == nil {
			o = append(o, r.name)
		}
	}
	actor.Resume(rig.None, 0)
	if !actor.Died() && actor.Err() == nil {
		o = append(o, first.name)
	}
	t.Log(name)
	w.check(t, o, append([]request{first}, among...))
	w.finish(t)
	return true
}

package startstop_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/startstop"
	"github.com/fanmail/fanmail/internal/startstop/startstoptest"
)

// recorder is a Service that records its calls.
type recorder struct {
	name              string
	events            *[]string
	startErr, stopErr error
}

func (r recorder) Start(context.Context) error {
	*r.events = append(*r.events, "start "+r.name)
	return r.startErr
}

func (r recorder) Stop(context.Context) error {
	*r.events = append(*r.events, "stop "+r.name)
	return r.stopErr
}

func TestGroupLifecycle(t *testing.T) {
	t.Parallel()
	startstoptest.Stress(t, func() startstop.Service {
		var g startstop.Group
		g.Add("a", startstop.NewRunner("test", quiet(), untilIntakeEnds))
		var nested startstop.Group
		nested.Add("b", startstop.NewRunner("test", quiet(), untilIntakeEnds))
		g.Add("nested", &nested)
		return &g
	})
}

func TestEmptyGroup(t *testing.T) {
	t.Parallel()
	startstoptest.Stress(t, func() startstop.Service { return &startstop.Group{} })
}

func TestGroupOrder(t *testing.T) {
	t.Parallel()
	errA, errC := errors.New("a is stuck"), errors.New("c is stuck")
	var events []string
	var g startstop.Group
	g.Add("a", recorder{name: "a", events: &events, stopErr: errA})
	g.Add("b", recorder{name: "b", events: &events})
	g.Add("c", recorder{name: "c", events: &events, stopErr: errC})
	require.NoError(t, g.Start(t.Context()))
	err := g.Stop(t.Context())
	require.EqualError(t, err, "stop c: c is stuck\nstop a: a is stuck")
	require.ErrorIs(t, err, errA)
	require.ErrorIs(t, err, errC)
	require.Equal(t, []string{"start a", "start b", "start c", "stop c", "stop b", "stop a"}, events)
}

func TestGroupStopsWhatWasStartedWhenOneFails(t *testing.T) {
	t.Parallel()
	errC := errors.New("port in use")
	var events []string
	var g startstop.Group
	for _, name := range []string{"a", "b"} {
		g.Add(name, recorder{name: name, events: &events})
	}
	g.Add("c", recorder{name: "c", events: &events, startErr: errC})
	g.Add("d", recorder{name: "d", events: &events})
	err := g.Start(t.Context())
	require.ErrorIs(t, err, errC)
	require.EqualError(t, err, "start c: port in use")
	require.Equal(t, []string{"start a", "start b", "start c", "stop b", "stop a"}, events)
	require.ErrorIs(t, g.Start(t.Context()), startstop.ErrStopped)
}

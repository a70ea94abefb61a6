package bustest

import (
	"context"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/pkg/event"
)

// nowhere returns tasks whose places do not exist.
func nowhere() map[string]event.Task {
	return map[string]event.Task{
		"a partition above all": tasks(event.Bulk, Partitions, 0, 1)[0],
		"a negative partition":  tasks(event.Bulk, -1, 0, 1)[0],
		"an unknown lane":       tasks("slow", 0, 0, 1)[0],
	}
}

func (s *suite) emitTasksNowhere() {
	for name, task := range nowhere() {
		require.ErrorContains(s.t, s.Bus.EmitTasks(s.ctx(), []event.Task{task}), "there is no partition", name)
	}
}

func (s *suite) takeNowhere() {
	for name, task := range nowhere() {
		_, err := s.Bus.Take(s.ctx(), task.Lane, task.Partition)
		require.ErrorContains(s.t, err, "there is no partition", name)
	}
}

func (s *suite) takeExcludes() {
	s.emitTasks(event.Bulk, 0, 0, 2)
	s.emitTasks(event.Bulk, 1, 0, 1)
	s.emitTasks(event.Medium, 0, 0, 1)
	held := s.take(event.Bulk, 0)
	next := make(chan bus.Held, 1)
	go func() {
		other, err := s.Bus.Take(s.ctx(), event.Bulk, 0)
		if err != nil {
			s.t.Error(err)
		}
		next <- other
	}()
	s.take(event.Bulk, 1)
	s.take(event.Medium, 0)
	require.Empty(s.t, next, "two hold the same lane and partition")
	require.NoError(s.t, held.Done(s.ctx()))
	other := <-next
	require.NotNil(s.t, other)
	require.Equal(s.t, ids(1, 2), s.ofTasks(other.First()))
	require.Equal(s.t, 1, other.First().Attempts)
}

func (s *suite) takeEnds() {
	s.requireEnds(func(ctx context.Context) error {
		held, err := s.Bus.Take(ctx, event.Bulk, 0)
		require.Nil(s.t, held)
		return err
	})
}

func (s *suite) takeCancelled() {
	for n := range 100 {
		ctx, cancel := context.WithCancel(s.ctx())
		type taken struct {
			held bus.Held
			err  error
		}
		done := make(chan taken, 1)
		go func() {
			held, err := s.Bus.Take(ctx, event.Bulk, 0)
			done <- taken{held, err}
		}()
		emitted := make(chan error, 1)
		go func() { emitted <- s.Bus.EmitTasks(s.ctx(), tasks(event.Bulk, 0, n, n+1)) }()
		if n%2 == 0 {
			require.NoError(s.t, <-emitted)
		}
		cancel()
		if n%2 == 1 {
			require.NoError(s.t, <-emitted)
		}
		got := <-done
		if got.err != nil {
			require.Equal(s.t, context.Canceled, got.err)
			got.held = s.take(event.Bulk, 0)
		}
		require.Equal(s.t, ids(n, n+1), s.ofTasks(got.held.First()))
		require.NoError(s.t, got.held.Done(s.ctx()))
	}
}

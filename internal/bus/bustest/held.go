package bustest

import (
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/event"
)

func (s *suite) waiting() {
	for n := range 10 { // tasks of other lanes and partitions lie between
		s.emitTasks(event.Bulk, 0, n, n+1)
		s.emitTasks(event.Bulk, 1, n, n+1)
		s.emitTasks(event.Express, 0, n, n+1)
	}
	held := s.take(event.Bulk, 0)
	require.Equal(s.t, ids(0, 1), s.ofTasks(held.First()))
	require.Empty(s.t, s.behind(held, 0))
	require.Equal(s.t, ids(1, 10), s.behind(held, 100))
	some, err := held.Waiting(s.ctx(), 4)
	require.NoError(s.t, err)
	require.Equal(s.t, ids(1, 5), s.ofTasks(some...))
	for _, task := range some {
		require.Greater(s.t, task.Sequence, held.First().Sequence)
		require.Zero(s.t, task.Attempts)
		require.False(s.t, task.Stored.IsZero())
	}
	require.NoError(s.t, held.Remove(s.ctx(), some))
	require.Equal(s.t, ids(5, 10), s.behind(held, 100))
	require.NoError(s.t, held.Done(s.ctx()))

	held = s.take(event.Bulk, 0)
	require.Equal(s.t, ids(5, 6), s.ofTasks(held.First()))
	require.Equal(s.t, 1, held.First().Attempts)
	require.Equal(s.t, ids(1, 10), s.behind(s.take(event.Bulk, 1), 100))
	require.Equal(s.t, ids(1, 10), s.behind(s.take(event.Express, 0), 100))
}

func (s *suite) removeGone() {
	s.emitTasks(event.Bulk, 0, 0, 3)
	held := s.take(event.Bulk, 0)
	waiting, err := held.Waiting(s.ctx(), 10)
	require.NoError(s.t, err)
	require.NoError(s.t, held.Remove(s.ctx(), waiting))
	require.NoError(s.t, held.Remove(s.ctx(), append(waiting, event.Delivery{Sequence: 4711})))
	require.Empty(s.t, s.behind(held, 10))
}

func (s *suite) release() {
	s.emitTasks(event.Bulk, 0, 0, 2)
	held := s.take(event.Bulk, 0)
	require.NoError(s.t, held.Extend())
	require.NoError(s.t, held.Release(s.ctx()))
	next := s.take(event.Bulk, 0)
	require.Equal(s.t, held.First().Sequence, next.First().Sequence)
	require.Equal(s.t, 2, next.First().Attempts)
	require.Equal(s.t, ids(1, 2), s.behind(next, 10))
}

func (s *suite) doneTwice() {
	s.emitTasks(event.Bulk, 0, 0, 2)
	slow := s.take(event.Bulk, 0)
	require.NoError(s.t, slow.Release(s.ctx())) // as if the lease had ended
	next := s.take(event.Bulk, 0)
	require.NoError(s.t, slow.Done(s.ctx()))
	require.NoError(s.t, next.Done(s.ctx()))
	require.Equal(s.t, ids(1, 2), s.ofTasks(s.take(event.Bulk, 0).First()))
}

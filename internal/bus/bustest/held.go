package bustest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/pkg/event"
)

func (s *suite) waiting() {
	for n := range 10 { // tasks of other lanes and partitions lie between
		s.emitTasks(event.Bulk, 0, n, n+1)
		s.emitTasks(event.Bulk, 1, n, n+1)
		s.emitTasks(event.Medium, 0, n, n+1)
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
	require.Equal(s.t, ids(1, 10), s.behind(s.take(event.Medium, 0), 100))
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

func (s *suite) giveBack() {
	s.emitTasks(event.Bulk, 0, 0, 2)
	require.NoError(s.t, s.take(event.Bulk, 0).Release(s.ctx()))
	for range 2 {
		first := s.take(event.Bulk, 0)
		require.Equal(s.t, ids(0, 1), s.ofTasks(first.First()))
		require.Equal(s.t, 2, first.First().Attempts, "the first ended in Release")
		require.NoError(s.t, first.GiveBack(s.ctx()))
		second := s.take(event.Bulk, 0)
		require.Equal(s.t, ids(1, 2), s.ofTasks(second.First()))
		require.Equal(s.t, 1, second.First().Attempts)
		require.Equal(s.t, ids(0, 1), s.behind(second, 10), "it is once in the queue, at the end")
		require.NoError(s.t, second.GiveBack(s.ctx()))
	}
}

func (s *suite) poll() {
	poll := func(partition int, wait time.Duration) bus.Held {
		held, err := s.Bus.Poll(s.ctx(), event.Bulk, partition, wait)
		require.NoError(s.t, err)
		return held
	}
	require.Nil(s.t, poll(0, 0))
	require.Nil(s.t, poll(0, time.Millisecond))
	s.emitTasks(event.Bulk, 0, 0, 2)
	s.emitTasks(event.Bulk, 1, 0, 1)
	var held bus.Held
	require.Eventually(s.t, func() bool { held = poll(0, 0); return held != nil }, patience, time.Millisecond)
	require.Equal(s.t, ids(0, 1), s.ofTasks(held.First()))
	require.Nil(s.t, poll(0, 0), "the partition is held")
	require.Nil(s.t, poll(0, time.Millisecond))
	other := poll(1, patience)
	require.Equal(s.t, ids(0, 1), s.ofTasks(other.First()))
	require.NoError(s.t, held.Done(s.ctx()))
	require.Equal(s.t, 1, poll(0, patience).First().Attempts)
	_, err := s.Bus.Poll(s.ctx(), event.Bulk, Partitions, 0)
	require.Error(s.t, err)
}

package bustest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/pkg/event"
)

// eventually returns the backlog as soon as it meets a condition: it may be a second old.
func (s *suite) eventually(met func(bus.Backlog) bool) (backlog bus.Backlog) {
	require.Eventually(s.t, func() bool {
		var err error
		backlog, err = s.Bus.Backlog(s.ctx())
		require.NoError(s.t, err)
		return met(backlog)
	}, patience, 10*time.Millisecond)
	return backlog
}

func (s *suite) backlog() {
	s.emitTasks(event.Bulk, 0, 0, 2)
	s.emitTasks(event.Bulk, 1, 0, 2)
	s.emitTasks(event.Medium, 1, 0, 1)
	s.publish(0, 3)
	require.NoError(s.t, s.Login(s.ctx(), []byte("a login")))
	s.file(1, "fanmail.v1.published")
	received := s.fetchAll(3)
	held, other := s.take(event.Bulk, 0), s.take(event.Medium, 1)
	all := s.eventually(func(b bus.Backlog) bool { return b.DeadLetters.Messages == 1 && b.Tasks[event.Bulk].Messages == 4 })
	require.Equal(s.t, bus.Queue{Messages: 4, Oldest: held.First().Stored}, all.Tasks[event.Bulk])
	require.Equal(s.t, bus.Queue{Messages: 1, Oldest: other.First().Stored}, all.Tasks[event.Medium])
	require.Equal(s.t, bus.Queue{Messages: 3, Oldest: received[0].Delivery().Stored}, all.Published)
	require.Equal(s.t, uint64(1), all.Logins.Messages)
	for place, want := range map[event.Lane][]int{event.Bulk: {2, 2}, event.Medium: {0, 1}} {
		for partition, tasks := range want {
			require.Len(s.t, s.oldestTasks(place, partition, 9), tasks, "%s %d", place, partition)
		}
	}
	first := s.oldestTasks(event.Bulk, 0, 1)
	require.Len(s.t, first, 1)
	require.Equal(s.t, held.First().Payload, first[0].Payload, "also a task that is held")
	require.Equal(s.t, held.First().Stored, first[0].Stored)
	_, err := s.Bus.OldestTasks(s.ctx(), event.Bulk, Partitions, 1)
	require.Error(s.t, err)
	published, err := s.Bus.OldestPublished(s.ctx(), 2)
	require.NoError(s.t, err)
	require.Len(s.t, published, 2)
	for i, one := range published {
		require.Equal(s.t, received[i].Delivery().Payload, one.Payload, "also an event that was handed out")
	}
	for name, fill := range all.Streams {
		require.NotZero(s.t, fill.Bytes, name)
	}

	waiting, err := held.Waiting(s.ctx(), 1)
	require.NoError(s.t, err)
	require.NoError(s.t, held.Remove(s.ctx(), waiting))
	require.NoError(s.t, held.Done(s.ctx()))
	rest := s.eventually(func(b bus.Backlog) bool { return b.Tasks[event.Bulk].Messages == 2 })
	require.Equal(s.t, s.take(event.Bulk, 1).First().Stored, rest.Tasks[event.Bulk].Oldest, "the other partition has the oldest task now")
	require.Empty(s.t, s.oldestTasks(event.Bulk, 0, 9))
}

func (s *suite) oldestTasks(lane event.Lane, partition, limit int) []event.Delivery {
	s.t.Helper()
	oldest, err := s.Bus.OldestTasks(s.ctx(), lane, partition, limit)
	require.NoError(s.t, err)
	return oldest
}

package bustest

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
)

func (s *suite) fetchInOrder() {
	s.publish(0, 25)
	var all []message.ID
	for len(all) < 25 {
		received := s.fetch([]int{1, 10, 1000}[len(all)%3])
		for _, r := range received {
			require.Equal(s.t, 1, r.Delivery().Attempts)
			require.NoError(s.t, r.Ack())
		}
		all = append(all, s.ofEvents(received)...)
	}
	require.Equal(s.t, ids(0, 25), all)
	require.Eventually(s.t, func() bool {
		backlog, err := s.Bus.Backlog(s.ctx())
		return err == nil && backlog.Published.Messages == 0
	}, patience, 10*time.Millisecond, "an acknowledged event is gone")
}

func (s *suite) fetchReleased() {
	s.publish(0, 1)
	require.NoError(s.t, s.fetch(10)[0].Release(0))
	again := s.fetch(10)
	require.Equal(s.t, ids(0, 1), s.ofEvents(again))
	require.Equal(s.t, 2, again[0].Delivery().Attempts)
}

func (s *suite) fetchReleasedLater() {
	s.publish(0, 2)
	require.NoError(s.t, s.fetch(1)[0].Release(24*time.Hour))
	require.Equal(s.t, ids(1, 2), s.ofEvents(s.fetch(10)))
	s.publish(2, 3)
	soon := s.fetch(1)
	require.Equal(s.t, ids(2, 3), s.ofEvents(soon))
	require.NoError(s.t, soon[0].Release(time.Millisecond))
	again := s.fetch(1)
	require.Equal(s.t, ids(2, 3), s.ofEvents(again))
	require.Equal(s.t, 2, again[0].Delivery().Attempts)
}

func (s *suite) fetchEnds() {
	s.requireEnds(func(ctx context.Context) error {
		_, err := s.Bus.FetchPublished(ctx, 10)
		return err
	})
}

func (s *suite) emitPublishedRepeats() {
	events := []event.Published{event.NewPublished(message.Ref{From: "author", ID: id(0)})}
	for _, fresh := range []bool{false, false, true} {
		require.NoError(s.t, s.Bus.EmitPublished(s.ctx(), events, fresh))
	}
	s.publish(1, 2)
	require.Equal(s.t, append(append(ids(0, 1), ids(0, 1)...), ids(1, 2)...), s.ofEvents(s.fetchAll(3)))
}

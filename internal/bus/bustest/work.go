package bustest

import (
	"context"
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
)

func id(n int) message.ID {
	id := message.MinID(time.UnixMilli(1_700_000_000_000 + int64(n)))
	id[6], id[8] = 0x70, 0x80
	return id
}

func ids(from, to int) []message.ID {
	var all []message.ID
	for n := from; n < to; n++ {
		all = append(all, id(n))
	}
	return all
}

func tasks(lane event.Lane, partition, from, to int) []event.Task {
	var all []event.Task
	for _, id := range ids(from, to) {
		all = append(all, event.Task{Version: event.Version, ID: id, From: "author", Lane: lane, Partition: partition})
	}
	return all
}

func (s *suite) emitTasks(lane event.Lane, partition, from, to int) {
	require.NoError(s.t, s.Bus.EmitTasks(s.ctx(), tasks(lane, partition, from, to)))
}

func (s *suite) take(lane event.Lane, partition int) bus.Held {
	held, err := s.Bus.Take(s.ctx(), lane, partition)
	require.NoError(s.t, err)
	return held
}

// behind returns the messages of the tasks behind a held one.
func (s *suite) behind(held bus.Held, limit int) []message.ID {
	waiting, err := held.Waiting(s.ctx(), limit)
	require.NoError(s.t, err)
	return s.ofTasks(waiting...)
}

func (s *suite) ofTasks(deliveries ...event.Delivery) []message.ID {
	var all []message.ID
	for _, d := range deliveries {
		task, err := event.DecodeTask(d.Payload)
		require.NoError(s.t, err)
		require.Equal(s.t, fmt.Sprintf("fanmail.v1.fanout.%s.%d", task.Lane, task.Partition), d.Subject)
		all = append(all, task.ID)
	}
	return all
}

func (s *suite) publish(from, to int) {
	var events []event.Published
	for _, id := range ids(from, to) {
		events = append(events, event.NewPublished(message.Ref{From: "author", ID: id}))
	}
	require.NoError(s.t, s.Bus.EmitPublished(s.ctx(), events, true))
}

func (s *suite) fetch(limit int) []bus.Received {
	received, err := s.Bus.FetchPublished(s.ctx(), limit)
	require.NoError(s.t, err)
	require.NotEmpty(s.t, received)
	require.LessOrEqual(s.t, len(received), limit)
	return received
}

// fetchAll fetches so many events, which may take several calls.
func (s *suite) fetchAll(count int) []bus.Received {
	var all []bus.Received
	for len(all) < count {
		all = append(all, s.fetch(count-len(all))...)
	}
	return all
}

func (s *suite) ofEvents(received []bus.Received) []message.ID {
	var all []message.ID
	for _, r := range received {
		e, err := event.DecodePublished(r.Delivery().Payload)
		require.NoError(s.t, err)
		require.Equal(s.t, "fanmail.v1.published", r.Delivery().Subject)
		all = append(all, e.ID)
	}
	return all
}

// requireEnds calls a method that waits, and ends its context.
func (s *suite) requireEnds(wait func(context.Context) error) {
	ctx, cancel := context.WithCancel(s.ctx())
	ended := make(chan error, 1)
	go func() { ended <- wait(ctx) }()
	cancel()
	require.Equal(s.t, context.Canceled, <-ended)
}

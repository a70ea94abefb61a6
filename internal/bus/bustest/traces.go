package bustest

import (
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
)

func (s *suite) traces() {
	given := event.Trace{Parent: "00-11111111111111111111111111111111-aaaaaaaaaaaaaaaa-01", State: "vendor=1"}
	published := event.NewPublished(message.Ref{From: "author", ID: id(0)})
	published.Trace = given
	require.NoError(s.t, s.Bus.EmitPublished(s.ctx(), []event.Published{published}, false))
	s.publish(1, 2)
	received := s.fetchAll(2)
	require.Equal(s.t, given, received[0].Delivery().Trace)
	require.Zero(s.t, received[1].Delivery().Trace)

	emitted := tasks(event.Bulk, 1, 0, 3)
	emitted[0].Trace, emitted[2].Trace = given, given
	require.NoError(s.t, s.Bus.EmitTasks(s.ctx(), emitted))
	held := s.take(event.Bulk, 1)
	require.Equal(s.t, given, held.First().Trace)
	behind, err := held.Waiting(s.ctx(), 2)
	require.NoError(s.t, err)
	require.Equal(s.t, []event.Trace{{}, given}, []event.Trace{behind[0].Trace, behind[1].Trace})

	require.NoError(s.t, s.Bus.DeadLetter(s.ctx(), event.DeadLetter{
		Version: event.Version, Reason: "attempts", Subject: held.First().Subject, Payload: held.First().Payload, Trace: given,
	}))
	filed, err := s.Bus.DeadLetters(s.ctx(), 0, 1)
	require.NoError(s.t, err)
	require.Equal(s.t, given, filed[0].Trace)
	require.NoError(s.t, held.Remove(s.ctx(), behind))
	require.NoError(s.t, held.Done(s.ctx()))
	require.NoError(s.t, s.Bus.Emit(s.ctx(), filed[0].DeadLetter))
	require.Equal(s.t, given, s.take(event.Bulk, 1).First().Trace)
}

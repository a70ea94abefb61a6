package bustest

import (
	"context"
	"fmt"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/pkg/event"
)

func (s *suite) fetchHeadStarts() {
	s.emitHeadStarts(0, 4)
	var all []bus.Received
	for len(all) < 4 {
		received, err := s.Bus.FetchHeadStarts(s.ctx(), 4-len(all))
		require.NoError(s.t, err)
		all = append(all, received...)
	}
	for n, r := range all {
		start, err := event.DecodeHeadStart(r.Delivery().Payload)
		require.NoError(s.t, err)
		require.Equal(s.t, id(n), start.ID)
		require.Equal(s.t, fmt.Sprintf("fanmail.v1.first.%d", n%Partitions), r.Delivery().Subject)
	}
	require.NoError(s.t, all[0].Ack())
	require.NoError(s.t, all[1].Release(0))
	again, err := s.Bus.FetchHeadStarts(s.ctx(), 4)
	require.NoError(s.t, err)
	require.Equal(s.t, all[1].Delivery().Sequence, again[0].Delivery().Sequence)
}

func (s *suite) fetchHeadStartsEnds() {
	s.requireEnds(func(ctx context.Context) error {
		_, err := s.Bus.FetchHeadStarts(ctx, 10)
		return err
	})
}

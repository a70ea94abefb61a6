package bustest

import (
	"context"

	"github.com/stretchr/testify/require"
)

func (s *suite) fetchLogins() {
	payloads := []string{`{"user":"ann"}`, "nonsense", "\xff", `{"user":"ben"}`}
	for _, payload := range payloads {
		require.NoError(s.t, s.Login(s.ctx(), []byte(payload)))
	}
	var got []string
	for len(got) < len(payloads) {
		received, err := s.Bus.FetchLogins(s.ctx(), 2)
		require.NoError(s.t, err)
		require.LessOrEqual(s.t, len(received), 2)
		for _, r := range received {
			got = append(got, string(r.Delivery().Payload))
			require.Equal(s.t, "fanmail.v1.login", r.Delivery().Subject)
			require.Equal(s.t, 1, r.Delivery().Attempts)
			require.NoError(s.t, r.Ack())
		}
	}
	require.Equal(s.t, payloads, got)
	require.NoError(s.t, s.Login(s.ctx(), []byte(payloads[0])))
	received, err := s.Bus.FetchLogins(s.ctx(), 1)
	require.NoError(s.t, err)
	require.NoError(s.t, received[0].Release(0))
	again, err := s.Bus.FetchLogins(s.ctx(), 1)
	require.NoError(s.t, err)
	require.Equal(s.t, 2, again[0].Delivery().Attempts)
	require.Equal(s.t, received[0].Delivery().Stored, again[0].Delivery().Stored)
}

func (s *suite) fetchLoginsEnds() {
	s.requireEnds(func(ctx context.Context) error {
		_, err := s.Bus.FetchLogins(ctx, 10)
		return err
	})
}

package pulse_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/pulse"
)

func TestBeat(t *testing.T) {
	t.Parallel()
	var outer, inner pulse.Pulse
	pulse.Beat(t.Context())
	ctx := outer.Of(t.Context())
	pulse.Beat(ctx)
	pulse.Beat(inner.Of(ctx))
	pulse.Beat(inner.Of(ctx))
	require.Equal(t, uint64(1), outer.Beats())
	require.Equal(t, uint64(2), inner.Beats())
}

package app

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/config"
)

func TestRoom(t *testing.T) {
	t.Parallel()
	now, available, looks := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), uint64(100<<20), 0
	var broken error
	var log bytes.Buffer
	r := &room{
		least: 64 * config.MiB, now: func() time.Time { return now }, logger: zerolog.New(&log),
		available: func() (uint64, error) { looks++; return available, broken },
	}
	require.NoError(t, r.check())
	available = 63 << 20
	require.NoError(t, r.check(), "it is not looked more often than every second")
	now = now.Add(roomEvery)
	require.EqualError(t, r.check(), "the disk has 63 MiB left, which is less than embedded.min_free")
	require.Error(t, r.check())
	require.Equal(t, 2, looks)

	now, broken = now.Add(roomEvery), errors.New("no such folder")
	require.Error(t, r.check(), "what is not known is as it was")
	now, broken, available = now.Add(roomEvery), nil, 64<<20
	require.NoError(t, r.check())
	require.True(t, r.bulk())
	now, available = now.Add(roomEvery), 32<<20-1
	require.False(t, r.bulk())
	now, available = now.Add(roomEvery), 32<<20
	require.True(t, r.bulk())
	require.Error(t, r.check())
	now = now.Add(-time.Hour)
	available = 0
	require.Error(t, r.check(), "a clock that goes back does not keep it from looking")

	require.False(t, r.bulk())
	require.True(t, (*room)(nil).bulk())

	require.Equal(t, 2, strings.Count(log.String(), "the disk is nearly full: messages and edges"))
	require.Equal(t, 1, strings.Count(log.String(), "the disk has room: messages and edges"))
	require.Equal(t, 2, strings.Count(log.String(), "the disk is nearly full: bulk deliveries wait"))
	require.Equal(t, 1, strings.Count(log.String(), "the disk has room: bulk deliveries go on"))
}

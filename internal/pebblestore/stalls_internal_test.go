package pebblestore

import (
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
)

func TestStalls(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := newStalls(zerolog.Nop())
	s.now = func() time.Time { return now }
	s.begin(pebble.WriteStallBeginInfo{Reason: "memtables"})
	now = now.Add(3 * time.Second)
	n, waited := s.total()
	require.Equal(t, 1, n)
	require.Equal(t, 3*time.Second, waited, "one that goes on counts")
	s.end()
	now = now.Add(time.Hour)
	s.begin(pebble.WriteStallBeginInfo{Reason: "layers"})
	now = now.Add(time.Second)
	s.end()
	n, waited = s.total()
	require.Equal(t, 2, n)
	require.Equal(t, 4*time.Second, waited)
}

package message_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/message"
)

func TestParseTime(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 1, 4, 5, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"2026-01-02T01:04:05Z":      at,
		"2026-01-02t01:04:05z":      at,
		"2026-01-02t02:04:05+01:00": at,
		"2026-01-02T01:04:05.25Z":   at.Add(250 * time.Millisecond),
		"0001-01-01T00:00:00Z":      {},
		"0000-12-31T23:00:00-01:00": {},
		"9999-12-31T23:59:59Z":      time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC),
	} {
		got, err := message.ParseTime(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{
		"", "now", "2026-01-02T1:04:05Z", "2026-01-02 01:04:05Z", "2026-01-02T01:04:05", "2026-01-02T01:04:05,25Z", "2026-01-02T01:04Z", "2026-02-30T01:04:05Z",
		"2026-01-02T01:04:05+1:00", "2026-01-02T01:04:05+24:00", "0000-06-01T00:00:00Z", "0001-01-01T00:00:00+00:01", "9999-12-31T23:59:59-00:01", "10000-01-01T00:00:00Z",
	} {
		_, err := message.ParseTime(text)
		require.EqualError(t, err, "is not a time such as 2026-01-02T15:04:05.000Z (RFC 3339) in the years 1 to 9999", text)
	}
}

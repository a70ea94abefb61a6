package config_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/config"
)

func TestParseDuration(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"30d": 720 * time.Hour, "0d": 0, "720h": 720 * time.Hour, "1h30m": 90 * time.Minute, "106751d": 106751 * 24 * time.Hour,
	} {
		got, err := config.ParseDuration(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "d", "30", "1.5d", "-1d", "1d12h", "106752d", "30D"} {
		_, err := config.ParseDuration(text)
		require.ErrorContains(t, err, "is not a duration such as 500ms, 30s, 5m, 720h or 30d", text)
	}
}

func TestRecordedProposals(t *testing.T) {
	t.Parallel()
	require.Equal(t, map[string]string{
		"dormant_after": "720h", "clock_tolerance": "2m", "publish_slack": "2m", "idempotency.ttl": "24h", "inbox.entry_bytes": "81KiB",
	}, config.Default().Recorded().Texts())
	require.Equal(t, int64(81*config.KiB), config.Default().Recorded().Numbers()["inbox.entry_bytes"])
	c := config.Default()
	require.Equal(t, []config.Need{
		{Key: "inbox.entry_bytes", Keys: "limits.body 64KiB and limits.attrs 16KiB", Number: 81 << 10, Text: "81KiB"},
	}, c.Needs())
	c.Store = config.StoreMongoDB
	require.Equal(t, config.Need{
		Key: "clock_tolerance", Keys: "mongodb.timeout 10s", Number: int64(40 * time.Second), Text: "40s",
	}, c.Needs()[1])
}

func TestRecordedWith(t *testing.T) {
	t.Parallel()
	proposed := config.Default().Recorded()
	changed, err := proposed.With(map[string]string{"dormant_after": "60d", "inbox.entry_bytes": "128KiB"})
	require.NoError(t, err)
	require.Equal(t, 60*24*time.Hour, changed.DormantAfter)
	require.Equal(t, "1440h", changed.Texts()["dormant_after"])
	require.Equal(t, proposed.PublishSlack, changed.PublishSlack)
	for want, texts := range map[string]map[string]string{
		"dormant_after is 7m: it must be at least four times clock_tolerance, which is 2m": {"dormant_after": "7m"},
		"idempotency.ttl is 1m: it must be at least publish_slack, which is 2m":            {"idempotency.ttl": "1m"},
		"publish_slack is 1m: it must be more than half of clock_tolerance, which is 2m":   {"publish_slack": "1m"},
		`clock_tolerance is "soon", which is not a duration`:                               {"clock_tolerance": "soon"},
		"inbox.entry_bytes is 129KiB: it must be from 1KiB to 128KiB":                      {"inbox.entry_bytes": "129KiB"},
		"addr is no recorded setting: those are dormant_after, clock_tolerance":            {"addr": ":1"},
	} {
		_, err := proposed.With(texts)
		require.ErrorIs(t, err, config.ErrInvalid)
		require.ErrorContains(t, err, want)
	}
}

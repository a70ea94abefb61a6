package config_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/config"
)

func TestRecordedProposals(t *testing.T) {
	t.Parallel()
	require.Equal(t, map[string]string{
		"dormant_after": "720h", "clock_tolerance": "2m", "publish_slack": "2m", "idempotency.ttl": "24h",
		"retention.max_age": "0s", "retention.newest": "0", "retention.canonical": "720h",
	}, config.Default().Recorded().Texts())
}

func TestRecordedWith(t *testing.T) {
	t.Parallel()
	proposed := config.Default().Recorded()
	changed, err := proposed.With(map[string]string{"dormant_after": "60d", "retention.newest": "7"})
	require.NoError(t, err)
	require.Equal(t, 60*24*time.Hour, changed.DormantAfter)
	require.Equal(t, 7, changed.Newest)
	changed, err = proposed.With(map[string]string{"dormant_after": "60d"})
	require.NoError(t, err)
	require.Equal(t, "1440h", changed.Texts()["dormant_after"])
	require.Equal(t, proposed.PublishSlack, changed.PublishSlack)
	changed, err = proposed.With(map[string]string{"retention.max_age": "4m", "retention.newest": "1", "retention.canonical": "1d"})
	require.NoError(t, err)
	require.Equal(t, 4*time.Minute, changed.MaxAge)
	require.Equal(t, 1, changed.Newest)
	require.Equal(t, 24*time.Hour, changed.Canonical)
	for want, texts := range map[string]map[string]string{
		"dormant_after is 7m: it must be at least four times clock_tolerance, which is 2m":                                   {"dormant_after": "7m"},
		"idempotency.ttl is 1m: it must be at least publish_slack, which is 2m":                                              {"idempotency.ttl": "1m"},
		"publish_slack is 1m: it must be more than half of clock_tolerance, which is 2m":                                     {"publish_slack": "1m"},
		`clock_tolerance is "soon", which is not a duration`:                                                                 {"clock_tolerance": "soon"},
		"retention.max_age is 3m59.999s: it must be 0, or at least publish_slack and clock_tolerance together, which are 4m": {"retention.max_age": "3m59.999s"},
		"retention.max_age is -1s: it must be 0, or at least":                                                                {"retention.max_age": "-1s"},
		"retention.max_age is 5m: it must be 0, or at least publish_slack and clock_tolerance together, which are 6m":        {"retention.max_age": "5m", "publish_slack": "4m"},
		"retention.max_age is 5m: it must be 0, or at least publish_slack and clock_tolerance together, which are 5m1s":      {"retention.max_age": "5m", "clock_tolerance": "181s"},
		"retention.newest is -1: it must be 0, or from 1 to 10000000":                                                        {"retention.newest": "-1"},
		"retention.newest is 10000001: it must be 0, or from 1 to 10000000":                                                  {"retention.newest": "10000001"},
		`retention.newest is "1.5", which is not a whole number`:                                                             {"retention.newest": "1.5"},
		"retention.canonical is 23h: it must be at least idempotency.ttl, which is 24h":                                      {"retention.canonical": "23h"},
		"retention.canonical is 720h: it must be at least idempotency.ttl, which is 744h":                                    {"idempotency.ttl": "31d"},
		"addr is no recorded setting: those are dormant_after, clock_tolerance":                                              {"addr": ":1"},
	} {
		_, err := proposed.With(texts)
		require.ErrorIs(t, err, config.ErrInvalid)
		require.ErrorContains(t, err, want)
	}
}

// A configuration that only remembers idempotency keys for long keeps their messages, too.
func TestLongKeysNeedNoCanonical(t *testing.T) {
	t.Parallel()
	c := config.Default()
	c.Idempotency.TTL = 60 * 24 * time.Hour
	require.NoError(t, c.Validate())
	require.Equal(t, c.Idempotency.TTL, c.Recorded().Canonical)
}

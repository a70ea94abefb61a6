package config_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/config"
)

func TestRecordedProposals(t *testing.T) {
	t.Parallel()
	require.Equal(t, map[string]string{
		"dormant_after": "720h", "clock_tolerance": "2m", "publish_slack": "2m", "idempotency.ttl": "24h", "inbox.entry_bytes": "81KiB",
		"inbox.bucket_size": "50", "retention.max_age": "0s", "retention.newest": "0", "retention.canonical": "720h",
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
	changed, err = proposed.With(map[string]string{"inbox.bucket_size": "255"})
	require.NoError(t, err)
	require.Equal(t, 255, changed.BucketSize)
	require.Equal(t, int64(255), changed.Numbers()["inbox.bucket_size"])
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
		"inbox.entry_bytes is 129KiB: it must be from 1KiB to 128KiB":                                                        {"inbox.entry_bytes": "129KiB"},
		"inbox.bucket_size is 0: it must be from 1 to 255":                                                                   {"inbox.bucket_size": "0"},
		"inbox.bucket_size is 256: it must be from 1 to 255":                                                                 {"inbox.bucket_size": "256"},
		`inbox.bucket_size is "many", which is not a whole number`:                                                           {"inbox.bucket_size": "many"},
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

// TestBucketsFitIntoADocument bounds the size of buckets by that of the largest entry, whichever of the two changes.
func TestSlotsLeaveRoomForFacets(t *testing.T) {
	t.Parallel()
	r := config.Recorded{Store: config.StoreMongoDB, EntryBytes: 81 * config.KiB, BucketSize: 199}
	require.Equal(t, 199, r.Slots())
	r.BucketSize = 202
	require.Equal(t, 199, r.Slots())
	r.EntryBytes = config.KiB
	require.Equal(t, 202, r.Slots())
	r = config.Recorded{Store: config.StoreEmbedded, EntryBytes: 81 * config.KiB, BucketSize: 202}
	require.Equal(t, 202, r.Slots())
}

func TestBucketsFitIntoADocument(t *testing.T) {
	t.Parallel()
	c := config.Default()
	c.Store, c.MongoDB.URI = config.StoreMongoDB, "mongodb://x"
	for _, test := range []struct {
		size, entry string
		most        int // 0 if it fits
	}{
		{"202", "81KiB", 0},
		{"203", "81KiB", 202},
		{"127", "128KiB", 0},
		{"128", "128KiB", 127},
		{"0", "81KiB", 202},
		{"16383", "1KiB", 0},
		{"16384", "1KiB", 16383},
	} {
		_, err := c.Recorded().With(map[string]string{"inbox.bucket_size": test.size, "inbox.entry_bytes": test.entry})
		if test.most == 0 {
			require.NoError(t, err, "%v", test)
			continue
		}
		require.EqualError(t, err, fmt.Sprintf("inbox.bucket_size is %s: it must be from 1 to %d, because so many entries of inbox.entry_bytes, "+
			"which is %s, stay below the 16MiB of a MongoDB document", test.size, test.most, test.entry))
	}
	c.Inbox.BucketSize = 202
	require.NoError(t, c.Validate())
	c.Limits.Body += config.KiB
	require.ErrorContains(t, c.Validate(), "inbox.bucket_size is 202: it must be from 1 to 199")
	c.Store = config.StoreEmbedded
	require.NoError(t, c.Validate())
}

// A configuration of an earlier release that remembers idempotency keys for long stays valid.
func TestLongKeysNeedNoCanonical(t *testing.T) {
	t.Parallel()
	c := config.Default()
	c.Idempotency.TTL = 60 * 24 * time.Hour
	require.NoError(t, c.Validate())
	require.Equal(t, c.Idempotency.TTL, c.Recorded().Canonical)
}

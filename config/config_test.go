package config_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fanmail/fanmail/config"
	"github.com/fanmail/fanmail/internal/partition"
	"github.com/fanmail/fanmail/pkg/identity"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

func TestReferenceEqualsDefault(t *testing.T) {
	t.Parallel()
	reference := config.Reference()
	c, err := config.Load(config.Options{File: write(t, string(reference))})
	require.NoError(t, err)
	require.Equal(t, config.Default(), c)
	limits, rules := message.DefaultLimits(), userstate.DefaultRules()
	require.Equal(t, config.Limits{
		Body: config.Size(limits.BodyBytes), Attrs: config.Size(limits.AttrsBytes), Recipients: limits.Recipients, Page: 200, BatchLines: 10_000,
	}, c.Limits)
	require.Equal(t, []time.Duration{rules.DormantAfter, rules.ClockTolerance, rules.PublishSlack}, []time.Duration{c.DormantAfter, c.ClockTolerance, c.PublishSlack})
	require.Equal(t, partition.DefaultCount, c.Partitions)

	rendered, err := c.YAML()
	require.NoError(t, err)
	var bare strings.Builder
	for line := range strings.Lines(string(reference)) {
		if trimmed := strings.TrimSpace(line); trimmed != "" && !strings.HasPrefix(trimmed, "#") {
			bare.WriteString(line)
		}
	}
	require.Equal(t, bare.String(), string(rendered), "the reference holds every key, in the order of the structs")
}

func TestKeysAreDocumented(t *testing.T) {
	t.Parallel()
	seen := make(map[string]string)
	for _, key := range config.Keys() {
		want := "Default: " + key.Default
		if key.Default == "" {
			want = `Default: ""`
		}
		require.Contains(t, key.Doc, want+",", "%s must say its default and the reason for it", key.Name)
		require.NotContains(t, key.Doc, "Fanmail's configuration", "%s has the comment of the file", key.Name)
		for _, name := range []string{key.Env, key.Flag} {
			require.NotContains(t, seen, name, "%s and %s share it", key.Name, seen[name])
			seen[name] = key.Name
		}
	}
}

func TestFlagsShowTheirDefaults(t *testing.T) {
	t.Parallel()
	flags := allFlags()
	require.Equal(t, "720h", flags.Lookup("dormant-after").DefValue)
	require.Equal(t, "Number of bulk-lane partitions that this process works on at the same time", flags.Lookup("fanout-bulk-workers").Usage)
	require.NoError(t, flags.Parse([]string{"--nats-sync-always"}))
	c, err := config.Load(config.Options{Flags: flags})
	require.NoError(t, err)
	require.True(t, c.NATS.SyncAlways)
}

func TestJSON(t *testing.T) {
	t.Parallel()
	out, err := config.Default().JSON()
	require.NoError(t, err)
	var back struct {
		DormantAfter string `json:"dormant_after"`
		Partitions   int    `json:"partitions"`
		Limits       struct {
			Body string `json:"body"`
		} `json:"limits"`
		NATS struct {
			SyncAlways bool `json:"sync_always"`
		} `json:"nats"`
	}
	require.NoError(t, json.Unmarshal(out, &back))
	require.Equal(t, "720h", back.DormantAfter)
	require.Equal(t, 16, back.Partitions)
	require.Equal(t, "64KiB", back.Limits.Body)
	require.False(t, back.NATS.SyncAlways)
}

func TestYAMLQuotesWhatWouldReadAsSomethingElse(t *testing.T) {
	t.Parallel()
	for _, data := range []string{"5", "true", "null", "a: b", "#x", " x", "ü\n"} {
		c := config.Default()
		c.Data = data
		rendered, err := c.YAML()
		require.NoError(t, err)
		back, err := config.Load(config.Options{File: write(t, string(rendered))})
		require.NoError(t, err)
		require.Equal(t, c, back)
	}
}

func TestFurtherKinds(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]identity.Kind{"": nil, "badge": {"badge"}, "a-1, b_2 ,,c": {"a-1", "b_2", "c"}} {
		c := config.Default()
		c.Identities.Kinds = text
		require.NoError(t, c.Validate())
		require.Equal(t, want, c.Identities.List())
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		set  func(*config.Config)
		want string
	}{
		"addr without a port":   {func(c *config.Config) { c.Addr = "localhost" }, `addr is "localhost": it must be host:port with a port from 0 to 65535, such as 127.0.0.1:8080`},
		"addr with a bad port":  {func(c *config.Config) { c.Addr = ":65536" }, `addr is ":65536": it must be host:port with a port from 0 to 65535, such as 127.0.0.1:8080`},
		"no data":               {func(c *config.Config) { c.Data = "" }, "data is empty: it must name a folder"},
		"partitions":            {func(c *config.Config) { c.Partitions = 0 }, "partitions is 0: it must be from 1 to 256"},
		"no clock tolerance":    {func(c *config.Config) { c.ClockTolerance = 0 }, "clock_tolerance is 0s: it must be from 1ms to 24h"},
		"dormant too soon":      {func(c *config.Config) { c.DormantAfter = 7 * time.Minute }, "dormant_after is 7m: it must be at least four times clock_tolerance, which is 2m"},
		"no slack":              {func(c *config.Config) { c.PublishSlack = time.Minute }, "publish_slack is 1m: it must be more than half of clock_tolerance, which is 2m, for that is how far clocks may be apart"},
		"keys forgotten early":  {func(c *config.Config) { c.Idempotency.TTL = time.Second }, "idempotency.ttl is 1s: it must be at least publish_slack, which is 2m"},
		"entries too large":     {func(c *config.Config) { c.Limits.Body = 127 * config.KiB }, "limits.body is 127KiB and limits.attrs is 16KiB: together they may have at most 127KiB"},
		"lanes out of order":    {func(c *config.Config) { c.Fanout.MediumMax = 10 }, "fanout.medium_max is 10: it must be at least fanout.direct_max, which is 1000"},
		"direct too large":      {func(c *config.Config) { c.Fanout.DirectMax = 10_001 }, "fanout.direct_max is 10001: it must be from 1 to 10000"},
		"nats on all addresses": {func(c *config.Config) { c.NATS.Listen = ":4222" }, `nats.listen is ":4222": the embedded server has no authentication, so it listens on a loopback address only, such as 127.0.0.1:4222`},
		"nats without a port":   {func(c *config.Config) { c.NATS.Listen = "::1" }, `nats.listen is "::1": it must be host:port with a port from 0 to 65535, such as 127.0.0.1:8080`},
		"too many recipients":   {func(c *config.Config) { c.Limits.Recipients = 10_001 }, "limits.recipients is 10001: it must be from 1 to 10000"},
		"negative limit":        {func(c *config.Config) { c.Rehydrate.Limit = -1 }, "rehydrate.limit is -1: it must be from 0 to 100000000"},
		"nobody to rehydrate":   {func(c *config.Config) { c.Rehydrate.Workers = 0 }, "rehydrate.workers is 0: it must be from 1 to 1024"},
		"no room to wait":       {func(c *config.Config) { c.Rehydrate.Queue = 0 }, "rehydrate.queue is 0: it must be from 1 to 10000000"},
		"short lease":           {func(c *config.Config) { c.Rehydrate.Lease = 99 * time.Millisecond }, "rehydrate.lease is 99ms: it must be from 100ms to 1h"},
		"never reaped":          {func(c *config.Config) { c.Rehydrate.ReapEvery = 0 }, "rehydrate.reap_every is 0s: it must be from 1ms to 24h"},
		"a kind in capitals":    {func(c *config.Config) { c.Identities.Kinds = "badge, Email" }, `identities.kinds has "Email", which cannot be a kind: it must be 1 to 32 of a-z, 0-9, _ and -`},
		"a known kind":          {func(c *config.Config) { c.Identities.Kinds = "phone" }, `identities.kinds has "phone", which is a kind that always exists: leave it out`},
		"empty pages":           {func(c *config.Config) { c.Rehydrate.Page = 0 }, "rehydrate.page is 0: it must be from 1 to 10000"},
		"small login stream":    {func(c *config.Config) { c.NATS.MaxLogin = config.KiB }, "nats.max_login is 1KiB: it must be from 1MiB to 1024GiB"},
		"small stream":          {func(c *config.Config) { c.NATS.MaxDLQ = config.KiB }, "nats.max_dlq is 1KiB: it must be from 1MiB to 1024GiB"},
		"a short grace":         {func(c *config.Config) { c.Auth.Grace = time.Second }, "auth.grace is 1s: it must be from 1m to 720h"},
		"relative backups":      {func(c *config.Config) { c.Backup.Dir = "backups" }, `backup.dir is "backups": it must be an absolute path`},
		"keys without audience": {func(c *config.Config) { c.Auth.JWTKeysFile = "k" }, "auth.jwt_audience is empty: with auth.jwt_keys_file it must name what tokens are for, such as fanmail"},
		"audience without keys": {func(c *config.Config) { c.Auth.JWTAudience = "k" }, "auth.jwt_keys_file is empty: auth.jwt_audience and auth.jwt_issuer mean nothing without it"},
		"key without cert":      {func(c *config.Config) { c.TLS.KeyFile = "k" }, "tls.key_file is set without tls.cert_file: set both, or neither"},
		"cert without key":      {func(c *config.Config) { c.TLS.CertFile = "k" }, "tls.cert_file is set without tls.key_file: set both, or neither"},
		"client CA alone":       {func(c *config.Config) { c.TLS.ClientCAFile = "k" }, "tls.client_ca_file is set without tls.cert_file: clients show certificates to a server that has one"},
		"embedded with CA":      {func(c *config.Config) { c.NATS.CAFile = "k" }, "nats.url is empty: the embedded server needs no nats.credentials_file, nats.ca_file or nats.cert_file: leave them empty, or set nats.url"},
		"a bad nats.url":        {func(c *config.Config) { c.NATS.URL = "nats://bob:secr%et@host" }, "nats.url is not an address, such as nats://10.0.0.1:4222, several separated by commas; percent-encode what is special in a password"},
		"another nats.url":      {func(c *config.Config) { c.NATS.URL = "http://bob:secret@host" }, "nats.url must begin with nats://, tls://, ws:// or wss://"},
		"a bad mongodb.uri":     {func(c *config.Config) { c.MongoDB.URI = "bob:secret@host" }, "mongodb.uri must begin with mongodb:// or mongodb+srv:// and the name of a host"},
		"a negative rate":       {func(c *config.Config) { c.Rate.Sender = -1 }, "rate.sender is -1: it must be from 0 to 1000000"},
		"no burst":              {func(c *config.Config) { c.Rate.AddressBurst = 0 }, "rate.address_burst is 0: it must be from 1 to 1000000"},
		"answers cut short":     {func(c *config.Config) { c.HTTP.WriteTimeout = time.Second }, "http.write_timeout is 1s: it must be from 2m to 24h"},
		"slow decisions": {
			func(c *config.Config) {
				c.Store, c.MongoDB.URI, c.MongoDB.Timeout = config.StoreMongoDB, "mongodb://x", 40*time.Second
			},
			"mongodb.timeout is 40s: it must be at most a quarter of clock_tolerance, which is 2m: lower it to 30s, or raise clock_tolerance to 2m40s",
		},
		"stuck at once": {func(c *config.Config) { c.Fanout.StuckAfter = 0 }, "fanout.stuck_after is 0s: it must be from 1s to 24h"},
		"log level":     {func(c *config.Config) { c.Log.Level = "loud" }, `log.level is "loud": it must be one of debug, info, warn, error`},
		"log format":    {func(c *config.Config) { c.Log.Format = "xml" }, `log.format is "xml": it must be one of auto, console, json`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := config.Default()
			test.set(&c)
			require.EqualError(t, c.Validate(), test.want)
		})
	}
}

func TestValidateAccepts(t *testing.T) {
	t.Parallel()
	for _, listen := range []string{"", "127.0.0.1:0", "localhost:4222", "[::1]:4222"} {
		c := config.Default()
		c.NATS.Listen = listen
		require.NoError(t, c.Validate(), listen)
	}
	mongo := config.Default()
	mongo.Store, mongo.MongoDB.URI = config.StoreMongoDB, "mongodb://x"
	require.NoError(t, mongo.Validate(), "the default timeout goes with the default tolerance")
	mongo.MongoDB.Timeout = mongo.ClockTolerance / 4
	require.NoError(t, mongo.Validate(), "exactly a quarter")
	embedded := config.Default()
	embedded.MongoDB.Timeout = time.Hour
	require.NoError(t, embedded.Validate(), "another store is used")
}

func TestSize(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]config.Size{
		"0B": 0, "1B": 1, "1023B": 1023, "1KiB": 1024, "1536KiB": 1536 * config.KiB, "32MiB": 32 * config.MiB, "3GiB": 3 * config.GiB,
	} {
		size, err := config.ParseSize(text)
		require.NoError(t, err, text)
		require.Equal(t, want, size, text)
		require.Equal(t, text, size.String())
	}
	for _, text := range []string{"", "B", "KiB", "-1", "1KB", "1.5KiB", "1kib", "9223372036854775808", "8589934592GiB", "1 KiB B"} {
		_, err := config.ParseSize(text)
		require.EqualError(t, err, `"`+text+`", which is not a size such as 512B, 64KiB, 32MiB or 1GiB`)
	}
	plain, err := config.ParseSize("64 KiB")
	require.NoError(t, err)
	require.Equal(t, 64*config.KiB, plain)
}

func TestSizesAreReadBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		size := config.Size(rapid.Int64Min(0).Draw(t, "size"))
		back, err := config.ParseSize(size.String())
		require.NoError(t, err)
		require.Equal(t, size, back)
	})
}

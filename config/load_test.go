package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/config"
)

func write(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fanmail.yaml")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func allFlags() *pflag.FlagSet {
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	for _, key := range config.Keys() {
		key.AddFlag(flags)
	}
	return flags
}

func TestLoadOfNothingIsTheDefault(t *testing.T) {
	t.Parallel()
	c, err := config.Load(config.Options{})
	require.NoError(t, err)
	require.Equal(t, config.Default(), c)
}

func TestLoadPrecedence(t *testing.T) {
	t.Parallel()
	path := write(t, "partitions: 2\ndormant_after: 1h\nlimits:\n  body: 1KiB\n  attrs: 1KiB\nnats:\n  sync_always: true\n")
	flags := allFlags()
	require.NoError(t, flags.Parse([]string{"--partitions=4", "--nats-sync-always=false"}))
	c, err := config.Load(config.Options{
		File: path,
		Env: []string{
			"PATH=/bin", "FANMAIL_PARTITIONS=3", "FANMAIL_DORMANT_AFTER=2h", "FANMAIL_LIMITS_BODY=2KiB", "FANMAIL_ADDR=", "FANMAIL_NATS_SYNC_ALWAYS=true",
		},
		Flags: flags,
	})
	require.NoError(t, err)

	want := config.Default()
	want.Partitions = 4               // the flag, over the environment and the file
	want.DormantAfter = 2 * time.Hour // the environment, over the file
	want.Limits.Body = 2 * config.KiB
	want.Limits.Attrs = config.KiB // the file, which shares its section with the environment
	want.NATS.SyncAlways = false
	require.Equal(t, want, c)
}

func TestLoadEveryKeyFromEachSource(t *testing.T) {
	t.Parallel()
	other := map[string]string{
		"addr": "0.0.0.0:0", "data": "/tmp/x", "partitions": "256", "dormant_after": "1h30m", "clock_tolerance": "1m", "viewed_every": "7m", "publish_slack": "45s",
		"console": "false", "drain_delay": "2s", "drain_timeout": "1s", "limits.body": "1KiB", "limits.attrs": "100B", "limits.recipients": "7", "limits.page": "8", "limits.batch_lines": "9",
		"inbox.bucket_size": "60", "inbox.filter_buckets": "70", "inbox.filter_messages": "80", "idempotency.ttl": "1h", "fanout.medium_workers": "3", "fanout.bulk_workers": "4", "fanout.direct_max": "10",
		"fanout.medium_max": "11", "fanout.batch_owners": "12", "fanout.batch_tasks": "13", "fanout.batch_bytes": "1GiB", "fanout.class_cache": "14",
		"fanout.class_ttl": "1.5s", "fanout.head_starts": "false", "fanout.resume_after": "2m", "fanout.resume_every": "3m", "fanout.max_attempts": "15", "fanout.stuck_after": "20s",
		"following.counts_as_view": "false", "following.max": "30", "rehydrate.limit": "0", "rehydrate.workers": "24", "rehydrate.queue": "17", "rehydrate.lease": "9s", "rehydrate.reap_every": "10s",
		"rehydrate.page": "18", "identities.kinds": "badge,a-1", "retention.every": "2h", "retention.hold": "3h", "retention.rate": "27", "retention.users_rate": "270", "retention.queue": "28",
		"retention.max_age": "8h", "retention.newest": "29", "retention.canonical": "40h", "nats.listen": "localhost:0",
		"nats.ack_wait": "4s", "nats.max_published": "1MiB", "nats.max_fanout": "2MiB", "nats.max_login": "6MiB", "nats.max_dlq": "3MiB", "nats.sync_always": "true",
		"embedded.cache": "4MiB", "embedded.memtable": "5MiB", "embedded.remembered_owners": "7", "embedded.table_entries": "70", "embedded.remembered_messages": "8", "embedded.min_free": "3GiB",
		"store": "mongodb", "mongodb.uri": "mongodb://x", "mongodb.database": "y", "mongodb.timeout": "5s", "mongodb.bulk_operations": "19",
		"mongodb.bulk_bytes": "7MiB", "mongodb.concurrency": "21", "nats.url": "nats://x", "nats.replicas": "3",
		"http.read_header_timeout": "6s", "http.read_timeout": "7s", "http.idle_timeout": "8s",
		"http.write_timeout": "1m19s", "insecure": "true", "nats.credentials_file": "/c", "nats.ca_file": "/d", "nats.cert_file": "/e", "nats.key_file": "/f",
		"mongodb.uri_file": "/g", "mongodb.ca_file": "/h", "mongodb.cert_file": "/i", "auth.tokens_file": "/j", "auth.jwt_keys_file": "/k",
		"auth.jwt_audience": "fanmail", "auth.jwt_issuer": "https://issuer", "auth.grace": "2h", "tls.cert_file": "/l", "tls.key_file": "/m", "tls.client_ca_file": "/n",
		"rate.sender": "1", "rate.sender_burst": "2", "rate.address": "3", "rate.address_burst": "4", "rate.edges": "5",
		"backup.dir": "/o", "http.max_connections": "30", "http.max_header": "9KiB", "http.memory": "33MiB", "http.origins": "https://app.example.com",
		"stream.max": "5", "stream.per_user": "6", "stream.write_timeout": "7s", "stream.heartbeat": "8s", "stream.look_every": "9s",
		"log.level": "debug", "log.format": "console", "log.slow_after": "3s",
	}
	for _, key := range config.Keys() {
		value, found := other[key.Name]
		require.True(t, found, "give %s a value other than its default here", key.Name)
		require.NotEqual(t, key.Default, value, key.Name)
	}

	var env []string
	flags := allFlags()
	var file strings.Builder
	for _, key := range config.Keys() {
		env = append(env, key.Env+"="+other[key.Name])
		require.NoError(t, flags.Set(key.Flag, other[key.Name]))
		file.WriteString(key.Name + ": " + other[key.Name] + "\n")
	}
	for name, opts := range map[string]config.Options{
		"file":        {File: write(t, file.String())},
		"environment": {Env: env},
		"flags":       {Flags: flags},
	} {
		c, err := config.Load(opts)
		require.NoError(t, err, name)
		rendered, err := c.YAML()
		require.NoError(t, err, name)
		back, err := config.Load(config.Options{File: write(t, string(rendered))})
		require.NoError(t, err, name)
		require.Equal(t, c, back, name)
		for _, key := range config.Keys() {
			require.Regexp(t, `(?m)^ *`+key.Name[strings.LastIndex(key.Name, ".")+1:]+`: "?`+other[key.Name]+`"?$`, string(rendered), name)
		}
	}
}

func TestLoadFileFromEnvironment(t *testing.T) {
	t.Parallel()
	c, err := config.Load(config.Options{Env: []string{config.FileEnv + "=" + write(t, "partitions: 5")}})
	require.NoError(t, err)
	require.Equal(t, 5, c.Partitions)
}

func TestLoadEmptySectionKeepsDefaults(t *testing.T) {
	t.Parallel()
	c, err := config.Load(config.Options{File: write(t, "limits:\n  # body: 1KiB\naddr:\n")})
	require.NoError(t, err)
	require.Equal(t, config.Default(), c)
}

func TestLoadLeavesForeignVariablesAlone(t *testing.T) {
	t.Parallel()
	_, err := config.Load(config.Options{Env: []string{"FANMAIL_SERVER=http://host"}, ForeignEnv: []string{"FANMAIL_SERVER"}})
	require.NoError(t, err)
}

func TestLoadRefuses(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		file string
		env  []string
		args []string
		want string
	}{
		"unknown key": {
			file: "adr: x:1",
			want: "FILE: adr is unknown; the nearest known key is addr",
		},
		"unknown key in a section": {
			file: "limits:\n  bdy: 1KiB",
			want: "FILE: limits.bdy is unknown; the nearest known key is limits.body",
		},
		"unknown section": {
			file: "fan_out:\n  batch_tasks: 1",
			want: "FILE: fan_out.batch_tasks is unknown; the nearest known key is fanout.batch_tasks",
		},
		"value for a section": {
			file: "limits: 5",
			want: "FILE: limits is a section: it takes keys such as limits.body, not a value",
		},
		"list": {
			file: "addr: [a, b]",
			want: "FILE: addr is not a single value",
		},
		"unknown variable": {
			env:  []string{"FANMAIL_DORMANTAFTER=1h"},
			want: "environment: FANMAIL_DORMANTAFTER is unknown; the nearest known variable is FANMAIL_DORMANT_AFTER",
		},
		"duration without a unit": {
			env:  []string{"FANMAIL_DORMANT_AFTER=30"},
			want: `FANMAIL_DORMANT_AFTER: dormant_after is "30", which is not a duration such as 500ms, 30s, 5m, 720h or 30d`,
		},
		"duration in parts of days": {
			file: "dormant_after: 1.5d",
			want: `FILE: dormant_after is "1.5d", which is not a duration such as 500ms, 30s, 5m, 720h or 30d`,
		},
		"size in powers of ten": {
			file: "limits:\n  body: 64KB",
			want: `FILE: limits.body is "64KB", which is not a size such as 512B, 64KiB, 32MiB or 1GiB`,
		},
		"fraction": {
			args: []string{"--partitions=1.5"},
			want: `--partitions: partitions is "1.5", which is not a whole number`,
		},
		"neither true nor false": {
			file: "nats:\n  sync_always: perhaps",
			want: `FILE: nats.sync_always is "perhaps", which is neither true nor false`,
		},
		"out of range, named by its source": {
			file: "partitions: 3",
			env:  []string{"FANMAIL_PARTITIONS=257"},
			want: "FANMAIL_PARTITIONS: partitions is 257: it must be from 1 to 256",
		},
		"more writes than any server takes": {
			file: "partitions: 3",
			env:  []string{"FANMAIL_MONGODB_BULK_OPERATIONS=25001"},
			want: "FANMAIL_MONGODB_BULK_OPERATIONS: mongodb.bulk_operations is 25001: it must be from 1 to 25000",
		},
		"all at once": {
			file: "partitions: 0\nlog:\n  level: loud",
			want: "FILE: partitions is 0: it must be from 1 to 256\nFILE: log.level is \"loud\": it must be one of debug, info, warn, error",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			flags := allFlags()
			require.NoError(t, flags.Parse(test.args))
			opts := config.Options{Env: test.env, Flags: flags}
			if test.file != "" {
				opts.File = write(t, test.file)
			}
			_, err := config.Load(opts)
			require.ErrorIs(t, err, config.ErrInvalid)
			require.EqualError(t, err, strings.ReplaceAll(test.want, "FILE", opts.File))
			var invalid *config.InvalidError
			require.ErrorAs(t, err, &invalid)
		})
	}
}

func TestLoadRefusesFilesItCannotRead(t *testing.T) {
	t.Parallel()
	_, err := config.Load(config.Options{File: filepath.Join(t.TempDir(), "absent.yaml")})
	require.ErrorIs(t, err, os.ErrNotExist)

	for name, content := range map[string]string{
		"not YAML":        "addr: [",
		"key given twice": "addr: a:1\naddr: b:1",
		"not a mapping":   "- addr",
	} {
		path := write(t, content)
		_, err := config.Load(config.Options{File: path})
		require.ErrorContains(t, err, path, name)
	}
}

package natsbus_test

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/internal/natsbus"
	"github.com/fanmail/fanmail/internal/natsbus/natsserver"
	"github.com/fanmail/fanmail/pkg/event"
)

var update = flag.Bool("update", false, "write the golden files")

// admin returns a JetStream client of an operator.
func admin(t *testing.T, server *natsserver.Server) jetstream.JetStream {
	t.Helper()
	nc, err := nats.Connect(server.ClientURL(), nats.Timeout(time.Minute))
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	return js
}

// declared returns the configuration of every stream and consumer on the server.
func declared(t *testing.T, js jetstream.JetStream) string {
	t.Helper()
	type stream struct {
		Stream    jetstream.StreamConfig     `json:"stream"`
		Consumers []jetstream.ConsumerConfig `json:"consumers"`
	}
	var all []stream
	for _, name := range []string{natsbus.PublishedStream, natsbus.FanoutStream, natsbus.LoginStream, natsbus.DeadLetterStream} {
		s, err := js.Stream(t.Context(), name)
		require.NoError(t, err)
		one := stream{Stream: s.CachedInfo().Config, Consumers: []jetstream.ConsumerConfig{}}
		one.Stream.Metadata = nil // the server's version
		byName := map[string]jetstream.ConsumerConfig{}
		consumers := s.ListConsumers(t.Context())
		for info := range consumers.Info() {
			info.Config.Metadata = nil
			byName[info.Name] = info.Config
		}
		require.NoError(t, consumers.Err())
		for _, name := range []string{
			"router", "rehydrator", "medium-0", "medium-1", "bulk-0", "bulk-1",
		} {
			if config, ok := byName[name]; ok {
				one.Consumers = append(one.Consumers, config)
				delete(byName, name)
			}
		}
		require.Empty(t, byName, "unexpected consumers")
		all = append(all, one)
	}
	text, err := json.MarshalIndent(all, "", "  ")
	require.NoError(t, err)
	return string(text) + "\n"
}

func TestDeclaresGolden(t *testing.T) {
	t.Parallel()
	server := start(t, natsserver.Options{Addr: "127.0.0.1:0"})
	connect(t, natsbus.Options{Server: server, Partitions: 2})
	got := declared(t, admin(t, server))
	golden := filepath.Join("testdata", "declared.golden.json")
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(got), 0o600))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

// A process that starts declares what is missing or differs, and nothing else.
func TestDeclaresOnlyWhatDiffers(t *testing.T) {
	t.Parallel()
	server := start(t, natsserver.Options{Addr: "127.0.0.1:0"})
	nc := admin(t, server).Conn()
	requests, err := nc.SubscribeSync("$JS.API.>")
	require.NoError(t, err)
	require.NoError(t, nc.Flush())
	for _, test := range []struct {
		lease    time.Duration
		declares int
	}{{time.Minute, 4 + 6}, {time.Minute, 0}, {time.Hour, 6}} {
		connect(t, natsbus.Options{Server: server, Partitions: 2, Lease: test.lease})
		require.NoError(t, nc.Flush())
		waiting, _, err := requests.Pending()
		require.NoError(t, err)
		declares := 0
		for range waiting {
			request, err := requests.NextMsgWithContext(patient(t))
			require.NoError(t, err)
			if strings.Contains(request.Subject, ".CREATE.") || strings.Contains(request.Subject, ".UPDATE.") {
				declares++
			}
		}
		require.Equal(t, test.declares, declares)
	}
}

func TestDeclaresFromManyProcessesAtOnce(t *testing.T) {
	t.Parallel()
	server := start(t, natsserver.Options{Addr: "127.0.0.1:0"})
	ctx := patient(t)
	var g errgroup.Group
	for range 4 {
		g.Go(func() error {
			b, err := natsbus.Connect(ctx, filled(natsbus.Options{Server: server, Partitions: 2, RequestTimeout: patience}))
			if err != nil {
				return err
			}
			b.Close()
			return nil
		})
	}
	require.NoError(t, g.Wait())
	want, err := os.ReadFile(filepath.Join("testdata", "declared.golden.json"))
	require.NoError(t, err)
	require.Equal(t, string(want), declared(t, admin(t, server)))
}

// Streams reserve the room that they may grow to. If they reserve all the room of the server, other processes can still connect, and a
// process can connect again.
func TestDeclaresWhereThereIsNoRoomForMore(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	server := start(t, natsserver.Options{Addr: "127.0.0.1:0", MaxStoreBytes: 4 * size})
	opts := natsbus.Options{Server: server, PublishedBytes: size, FanoutBytes: size, LoginBytes: size, DeadLetterBytes: size}
	for range 3 {
		connect(t, opts)
	}
	opts.FanoutBytes = 2 * size
	_, err := natsbus.Connect(patient(t), filled(opts))
	require.ErrorIs(t, err, event.ErrFull)
}

// A stream whose messages cannot be read directly is one of an earlier version.
func TestDeclareRaisesLimitsAndNeverLowersThem(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	for name, test := range map[string]struct{ have, configured, want int64 }{
		"smaller":   {2 * mib, 4 * mib, 4 * mib},
		"larger":    {8 * mib, 4 * mib, 8 * mib},
		"the same":  {4 * mib, 4 * mib, 4 * mib},
		"unlimited": {-1, 4 * mib, -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := start(t, natsserver.Options{Addr: "127.0.0.1:0"})
			js := admin(t, server)
			opts := natsbus.Options{Server: server, FanoutBytes: test.configured}
			connect(t, opts).Close()
			stream, err := js.Stream(t.Context(), natsbus.FanoutStream)
			require.NoError(t, err)
			config := stream.CachedInfo().Config
			config.MaxBytes, config.AllowDirect = test.have, false
			_, err = js.UpdateStream(t.Context(), config)
			require.NoError(t, err)

			connect(t, opts)
			stream, err = js.Stream(t.Context(), natsbus.FanoutStream)
			require.NoError(t, err)
			require.Equal(t, test.want, stream.CachedInfo().Config.MaxBytes)
			require.True(t, stream.CachedInfo().Config.AllowDirect)
		})
	}
}

func TestDeclareRefusesStreamsThatBehaveOtherwise(t *testing.T) {
	t.Parallel()
	right := jetstream.StreamConfig{
		Name: natsbus.FanoutStream, Subjects: []string{"fanmail.v1.fanout.*.*"}, Retention: jetstream.WorkQueuePolicy,
		Discard: jetstream.DiscardNew, Storage: jetstream.FileStorage, AllowDirect: true,
	}
	for name, test := range map[string]struct {
		change func(*jetstream.StreamConfig)
		want   string
	}{
		"keeps what is acknowledged": {func(c *jetstream.StreamConfig) { c.Retention = jetstream.LimitsPolicy }, "retention"},
		"drops the oldest":           {func(c *jetstream.StreamConfig) { c.Discard = jetstream.DiscardOld }, "discard"},
		"is in memory":               {func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage }, "storage"},
		"misses a lane":              {func(c *jetstream.StreamConfig) { c.Subjects = []string{"fanmail.v1.fanout.bulk.*"} }, "subjects"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := start(t, natsserver.Options{Addr: "127.0.0.1:0"})
			config := right
			test.change(&config)
			_, err := admin(t, server).CreateStream(t.Context(), config)
			require.NoError(t, err)
			_, err = natsbus.Connect(t.Context(), filled(natsbus.Options{Server: server}))
			require.ErrorIs(t, err, natsbus.ErrIncompatible)
			require.ErrorContains(t, err, natsbus.FanoutStream)
			require.ErrorContains(t, err, "its "+test.want)
		})
	}
}

func TestConnectRefuses(t *testing.T) {
	t.Parallel()
	server := start(t, natsserver.Options{})
	for name, test := range map[string]struct {
		opts natsbus.Options
		want string
	}{
		"neither server nor URL": {natsbus.Options{}, "either a server or a URL"},
		"both":                   {natsbus.Options{Server: server, URL: "nats://127.0.0.1"}, "either a server or a URL"},
		"too many partitions":    {natsbus.Options{Server: server, Partitions: 257}, "out of range"},
		"larger than the store":  {natsbus.Options{Server: server, FanoutBytes: 1 << 40}, "insufficient storage"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := natsbus.Connect(t.Context(), filled(test.opts))
			require.ErrorContains(t, err, test.want)
		})
	}
	t.Run("no server", func(t *testing.T) {
		t.Parallel()
		_, err := natsbus.Connect(t.Context(), filled(natsbus.Options{URL: "nats://127.0.0.1:1"}))
		require.ErrorIs(t, err, bus.ErrUnavailable)
	})
	t.Run("ended context", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := natsbus.Connect(ctx, filled(natsbus.Options{Server: server}))
		require.ErrorIs(t, err, context.Canceled)
	})
}

//go:build mongodb

package cli_test

import (
	"context"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/config"
	"github.com/fanmail/fanmail/internal/app"
	"github.com/fanmail/fanmail/internal/app/embedded"
	"github.com/fanmail/fanmail/internal/telemetry/telemetrytest"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/test/testenv"
)

// TestTwoServersAgree starts two servers with different configurations on a database. Both use what is recorded, also after a change.
func TestTwoServersAgree(t *testing.T) {
	t.Parallel()
	uri, database := testenv.MongoDB(t)
	cfg := config.Default()
	cfg.Addr, cfg.Store, cfg.MongoDB.URI, cfg.MongoDB.Database, cfg.MongoDB.Timeout = "127.0.0.1:0", config.StoreMongoDB, config.URL(uri), database, 30*time.Second
	cfg.NATS.MaxPublished, cfg.NATS.MaxFanout, cfg.NATS.MaxLogin, cfg.NATS.MaxDLQ = 16*config.MiB, 16*config.MiB, 16*config.MiB, 16*config.MiB
	require.NoError(t, app.Init(t.Context(), cfg, false, zerolog.Nop()))
	start := func(dormantAfter time.Duration) (url string, log *telemetrytest.Buffer) {
		cfg, log := cfg, new(telemetrytest.Buffer)
		cfg.Data, cfg.DormantAfter = t.TempDir(), dormantAfter
		server := app.New(cfg, app.Options{Embedded: embedded.Engines{}, Logger: zerolog.New(log).Level(zerolog.WarnLevel)})
		require.NoError(t, server.Start(t.Context()))
		t.Cleanup(func() { require.NoError(t, server.Stop(context.WithoutCancel(t.Context()))) })
		return server.URL(), log
	}
	a, _ := start(30 * 24 * time.Hour)
	b, log := start(60 * 24 * time.Hour)
	state := func(url string) client.Activity {
		c, err := client.New(url, client.Options{})
		require.NoError(t, err)
		defer c.Close()
		user, err := c.User(t.Context(), "ben")
		require.NoError(t, err)
		return user.State
	}
	becomes := func(url string, want client.Activity) {
		require.Eventually(t, func() bool { return state(url) == want }, time.Minute, 10*time.Millisecond)
	}
	fanmail(t, "import", "users", file(t, "users", `{"user":"ben","last_viewed":"`+time.Now().AddDate(0, 0, -40).UTC().Format(time.RFC3339)+`"}`+"\n"), "--server", a)
	require.Equal(t, client.Dormant, state(a))
	require.Equal(t, client.Dormant, state(b))
	processes := fromJSON[client.ProcessList](t, fanmail(t, "admin", "processes", "--json", "--server", b)).Processes
	require.Len(t, processes, 2)
	require.NotEqual(t, processes[0].Address, processes[1].Address)
	require.Contains(t, log.String(), `"key":"dormant_after","recorded":"720h","configured":"1440h","command":"fanmail admin settings dormant_after 1440h"`)
	fanmail(t, "admin", "settings", "dormant_after", "60d", "--yes", "--server", b)
	require.Equal(t, client.Dormant, state(b), "the horizon of ben is stored")
	fanmail(t, "import", "users", file(t, "later", `{"user":"ben","last_viewed":"`+time.Now().AddDate(0, 0, -35).UTC().Format(time.RFC3339)+`"}`+"\n"), "--server", b)
	becomes(b, client.Active)
	becomes(a, client.Active)

	other := cfg
	other.Inbox.BucketSize, other.Data = 20, t.TempDir()
	server := app.New(other, app.Options{Embedded: embedded.Engines{}, Logger: zerolog.Nop()})
	require.ErrorContains(t, server.Start(t.Context()), "the database was initialized with buckets of 50 slots, inbox.bucket_size is 20: configure 50")
}

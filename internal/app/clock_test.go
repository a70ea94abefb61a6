package app_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/config"
	"github.com/fanmail/fanmail/internal/app"
	between "github.com/fanmail/fanmail/internal/clocks"
	"github.com/fanmail/fanmail/internal/natsbus/natsserver"
	"github.com/fanmail/fanmail/pkg/client"
)

// clocks are a wall clock that the test sets, and a clock that no process sets.
type clocks struct {
	mu      sync.Mutex
	began   time.Time
	set     time.Duration
	metrics *prometheus.Registry
}

func (c *clocks) wall() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.set)
}

func (c *clocks) elapsed() time.Duration { return time.Since(c.began) }

func (c *clocks) setBy(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.set += d
}

// options makes a server use the clocks.
func (c *clocks) options(o *app.Options) {
	c.metrics = prometheus.NewRegistry()
	o.Now, o.Elapsed, o.Metrics = c.wall, c.elapsed, c.metrics
}

// TestStartWithAWrongClock starts a process whose clock differs from that of its NATS server. Beyond the tolerance it does not start. While
// the process runs, its clock may be set to anything.
func TestStartWithAWrongClock(t *testing.T) {
	t.Parallel()
	nats, err := natsserver.Start(t.Context(), natsserver.Options{Dir: t.TempDir(), Addr: "127.0.0.1:0"})
	require.NoError(t, err)
	t.Cleanup(nats.Stop)
	c := &clocks{began: time.Now()}
	external := func(cfg *config.Config) { cfg.NATS.URL = config.URL(nats.ClientURL()) }
	for ahead, want := range map[time.Duration]string{
		10 * time.Minute: "ahead of it", -10 * time.Minute: "behind it",
	} {
		cfg, opts := defaults(t.TempDir())
		external(&cfg)
		opts.Now = func() time.Time { return time.Now().Add(ahead) }
		a := app.New(cfg, opts)
		err := a.Start(t.Context())
		require.ErrorIs(t, err, between.ErrApart)
		require.ErrorContains(t, err, "by the NATS server's clock, so this host is ")
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "clock_tolerance is 2m: set the wrong clock right")
		require.NoError(t, a.Stop(t.Context()))
	}

	w, _ := newWorldOf(t, t.TempDir(), external, c.options)
	w.see(t, "ann")
	for _, by := range []time.Duration{10 * time.Minute, -20 * time.Minute} {
		c.setBy(by)
		w.ask(t, http.MethodGet, "/v1/users/ann/inbox", "", http.StatusOK, nil)
	}
}

// TestClockOfOneHost changes the clock of a host with an embedded store.
func TestClockOfOneHost(t *testing.T) {
	t.Parallel()
	c := &clocks{began: time.Now()}
	in := t.TempDir()
	start := func() (*world, func()) { return newWorldIn(t, in, c.options) }
	const line = "the newest message in the store is later than the clock"
	publish := func(w *world, status int, key string) {
		var problem client.Problem
		w.ask(t, http.MethodPost, "/v1/messages", `{"from":"ann","to":["bob"],"body":"x"}`, status, &problem, http.Header{client.IdempotencyKeyHeader: {key}})
		if status != http.StatusAccepted {
			require.Equal(t, client.ProblemClockAhead, problem.Type)
		}
	}
	behind := func() float64 {
		n, err := testutil.GatherAndCount(c.metrics, "fanmail_embedded_clock_behind_seconds")
		require.NoError(t, err)
		require.Equal(t, 1, n)
		families, err := c.metrics.Gather()
		require.NoError(t, err)
		for _, f := range families {
			if f.GetName() == "fanmail_embedded_clock_behind_seconds" {
				return f.GetMetric()[0].GetGauge().GetValue()
			}
		}
		return -1
	}
	ahead := config.Default().ClockTolerance + time.Hour

	w, stop := start()
	publish(w, http.StatusAccepted, "first")
	c.setBy(ahead)
	publish(w, http.StatusServiceUnavailable, "second")
	publish(w, http.StatusServiceUnavailable, "second")
	c.setBy(-ahead)
	publish(w, http.StatusAccepted, "second")
	stop()
	c.setBy(ahead)
	w, stop = start()
	require.NotContains(t, w.log.String(), line)
	require.Zero(t, behind())
	publish(w, http.StatusAccepted, "third") // the store does not notice a jump while no process runs
	stop()
	c.setBy(-ahead)
	w, _ = start()
	require.Equal(t, 1, strings.Count(w.log.String(), line))
	require.InDelta(t, ahead.Seconds(), behind(), 600)
	publish(w, http.StatusAccepted, "fourth")
}

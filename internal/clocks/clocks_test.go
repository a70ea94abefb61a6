package clocks_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/clocks"
	"github.com/fanmail/fanmail/internal/startstop"
	"github.com/fanmail/fanmail/internal/telemetry/telemetrytest"
	"github.com/fanmail/fanmail/test/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

const tolerance = 2 * time.Minute

// host is a host whose clock can be set, and a server whose clock is right.
type host struct {
	set     atomic.Int64 // by how much its clock is ahead
	takes   time.Duration
	late    bool // the server reads its clock at the end of a request, not at the beginning
	away    atomic.Bool
	silent  bool // the server's answers have no time
	log     telemetrytest.Buffer
	metrics *prometheus.Registry
}

func (h *host) now() time.Time { return time.Now().Add(time.Duration(h.set.Load())) }

func (h *host) read(ctx context.Context) (time.Time, error) {
	if h.away.Load() {
		return time.Time{}, errors.New("nobody answers")
	}
	if h.silent {
		return time.Time{}, nil
	}
	now := time.Now()
	select {
	case <-time.After(h.takes):
		if h.late {
			now = time.Now()
		}
		return now, nil
	case <-ctx.Done():
		return time.Time{}, ctx.Err()
	}
}

func (h *host) watch() *clocks.Watch {
	h.metrics = prometheus.NewRegistry()
	return clocks.New([]clocks.Clock{{Server: "store", Name: "the database's clock", Read: h.read}}, clocks.Options{
		Now: h.now, Tolerance: func() time.Duration { return tolerance }, Logger: zerolog.New(&h.log), Metrics: h.metrics,
	})
}

// requireOffset requires the metrics of the clocks; without lines, that there is no offset.
func (h *host) requireOffset(t *testing.T, lines string) {
	t.Helper()
	if lines == "" {
		count, err := testutil.GatherAndCount(h.metrics, "fanmail_clock_offset_seconds")
		require.NoError(t, err)
		require.Zero(t, count)
		return
	}
	require.NoError(t, testutil.GatherAndCompare(h.metrics, strings.NewReader(
		"# HELP fanmail_clock_offset_seconds How far the clock of this host is ahead of another; negative if it is behind. Absent while that server does not answer.\n"+
			"# TYPE fanmail_clock_offset_seconds gauge\n"+`fanmail_clock_offset_seconds{server="store"} `+lines+"\n"), "fanmail_clock_offset_seconds"))
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		ahead, takes time.Duration
		late         bool
		refused      string
	}{
		"right":                              {0, 0, false, ""},
		"at the tolerance":                   {tolerance, 0, false, ""},
		"ahead":                              {10 * time.Minute, 0, false, "so this host is 10m ahead of it, and clock_tolerance is 2m"},
		"behind":                             {-10 * time.Minute, 0, false, "so this host is 10m behind it, and clock_tolerance is 2m"},
		"just beyond the tolerance":          {tolerance + time.Millisecond, 0, false, "so this host is 2m0.001s ahead of it"},
		"at the tolerance, read early":       {tolerance, 2 * time.Second, false, ""}, // it looks like a second more
		"behind at the tolerance, read late": {-tolerance, 2 * time.Second, true, ""},
		"beyond it by less than the error":   {tolerance + time.Second, 2 * time.Second, true, ""},
		"beyond it by more than the error":   {tolerance + 3*time.Second, 2 * time.Second, true, "so this host is 2m2s ahead of it"},
		"too slow to say":                    {time.Hour, time.Minute, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := &host{takes: test.takes, late: test.late}
				h.set.Store(int64(test.ahead))
				err := h.watch().Check(t.Context())
				if test.refused == "" {
					require.NoError(t, err)
					return
				}
				require.ErrorIs(t, err, clocks.ErrApart)
				require.ErrorContains(t, err, test.refused)
				require.ErrorContains(t, err, "it is "+h.now().Add(-test.takes/2).UTC().Format("2006-01-02T15:04:05.000Z")+" on this host")
				there := time.Now()
				if !test.late {
					there = there.Add(-test.takes)
				}
				require.ErrorContains(t, err, there.UTC().Format("2006-01-02T15:04:05.000Z")+" by the database's clock")
			})
		})
	}
}

// A server whose answers have no time is not a clock in year 1.
func TestCheckWithoutATime(t *testing.T) {
	t.Parallel()
	h := &host{silent: true}
	require.NoError(t, h.watch().Check(t.Context()))
	h.requireOffset(t, "")
}

// TestRun sets the clock of a running host ahead and back. It is logged once each time, and nothing ends.
func TestRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := new(host)
		w := h.watch()
		require.NoError(t, w.Check(t.Context()))
		h.requireOffset(t, "0")
		intake, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			w.Run(intake, t.Context())
		}()
		pass := func() {
			startstop.Pause(t.Context(), 35*time.Second)
			synctest.Wait()
		}
		const differs, right = "the clock of this host differs from another", "the clock of this host is right again"
		requireLogged := func(off, on int) {
			t.Helper()
			require.Equal(t, []int{off, on}, []int{strings.Count(h.log.String(), differs), strings.Count(h.log.String(), right)}, h.log.String())
		}
		pass()
		requireLogged(0, 0)
		h.set.Store(int64(tolerance / 4))
		pass()
		h.requireOffset(t, "30")
		requireLogged(0, 0)
		h.set.Store(int64(-time.Hour))
		pass()
		h.requireOffset(t, "-3600")
		requireLogged(1, 0)
		h.away.Store(true)
		pass()
		h.requireOffset(t, "")
		h.away.Store(false)
		pass()
		requireLogged(1, 0)
		h.set.Store(0)
		pass()
		h.requireOffset(t, "0")
		requireLogged(1, 1)
		require.Contains(t, h.log.String(), `"server":"store","ahead_seconds":-3600`)
		stop()
		<-ended
	})
}

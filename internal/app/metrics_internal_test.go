package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/config"
	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/internal/meter"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/test/testenv"
)

// fixedBacklog is a bus whose backlog a test sets.
type fixedBacklog struct {
	bus.Monitor
	tasks map[event.Lane]bus.Queue
	err   error
}

func (b fixedBacklog) Backlog(context.Context) (bus.Backlog, error) {
	return bus.Backlog{Tasks: b.tasks}, b.err
}

func TestDrain(t *testing.T) {
	t.Parallel()
	rates := map[event.Lane]float64{event.Bulk: 0.5}
	d := &drain{rate: func(lane event.Lane) float64 { return rates[lane] }}
	d.bus = fixedBacklog{tasks: map[event.Lane]bus.Queue{event.Medium: {Messages: 3}, event.Bulk: {Messages: 30}}}
	require.NoError(t, testutil.CollectAndCompare(meter.Live(d.collect), strings.NewReader(`
# HELP fanmail_lane_drain_seconds Time until a lane is empty, if only this process works, at its rate of the last minutes, and no task is added; +Inf while there are tasks and it finished none.
# TYPE fanmail_lane_drain_seconds gauge
fanmail_lane_drain_seconds{lane="bulk"} 60
fanmail_lane_drain_seconds{lane="medium"} +Inf
`)))
	d.bus = fixedBacklog{err: errors.New("away")}
	require.Zero(t, testutil.CollectAndCount(meter.Live(d.collect)), "an unknown backlog must not be collected")
}

func TestDrainSeconds(t *testing.T) {
	t.Parallel()
	require.Zero(t, drainSeconds(0, 0), "there is nothing to drain")
	require.True(t, math.IsInf(drainSeconds(1, 0), 1))
	require.InDelta(t, 200, drainSeconds(20, 0.1), 1e-9)
}

// What expires is known to the second, from the files that are in force; where there are none, nothing expires.
func TestExpiry(t *testing.T) {
	t.Parallel()
	measured := func(a *App) string {
		a.measureExpiry()
		families, err := a.opts.Metrics.Gather()
		require.NoError(t, err)
		var b strings.Builder
		for _, family := range families {
			if strings.HasSuffix(family.GetName(), "_expires_seconds") {
				fmt.Fprintf(&b, "%s %.0f\n", family.GetName(), family.GetMetric()[0].GetGauge().GetValue())
			}
		}
		return b.String()
	}
	require.Equal(t, "fanmail_certificate_expires_seconds 0\nfanmail_token_expires_seconds 0\n", measured(New(config.Default(), Options{})))

	cfg := config.Default()
	cfg.TLS.CertFile, cfg.TLS.KeyFile = testenv.NewAuthority(t).Issue("server")
	pair, err := tls.LoadX509KeyPair(cfg.TLS.CertFile, cfg.TLS.KeyFile)
	require.NoError(t, err)
	cfg.Auth.TokensFile = filepath.Join(t.TempDir(), "tokens.yaml")
	require.NoError(t, os.WriteFile(cfg.Auth.TokensFile, []byte(`tokens: [{name: a, sha256: "`+strings.Repeat("0", 64)+`", scopes: [admin], expires: 2126-01-02T03:04:05Z}]`), 0o600))
	a := New(cfg, Options{})
	a.auth, err = a.authenticator()
	require.NoError(t, err)
	a.server.tls, err = a.serverTLS()
	require.NoError(t, err)
	require.Equal(t, fmt.Sprintf("fanmail_certificate_expires_seconds %d\nfanmail_token_expires_seconds %d\n",
		pair.Leaf.NotAfter.Unix(), time.Date(2126, 1, 2, 3, 4, 5, 0, time.UTC).Unix()), measured(a))
}

package app

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/internal/meter"
	"github.com/fanmail/fanmail/pkg/event"
)

// told is a bus on which there is what it is told.
type told struct {
	bus.Monitor
	tasks map[event.Lane]bus.Queue
	err   error
}

func (b told) Backlog(context.Context) (bus.Backlog, error) {
	return bus.Backlog{Tasks: b.tasks}, b.err
}

func TestDrain(t *testing.T) {
	t.Parallel()
	rates := map[event.Lane]float64{event.Bulk: 0.5}
	d := &drain{rate: func(lane event.Lane) float64 { return rates[lane] }}
	d.bus = told{tasks: map[event.Lane]bus.Queue{event.Express: {}, event.Medium: {Messages: 3}, event.Bulk: {Messages: 30}}}
	require.NoError(t, testutil.CollectAndCompare(meter.Live(d.collect), strings.NewReader(`
# HELP fanmail_lane_drain_seconds How long it takes until a lane is empty, if this process alone goes on as in the last minutes and nothing is added; +Inf while there are tasks and it has finished none.
# TYPE fanmail_lane_drain_seconds gauge
fanmail_lane_drain_seconds{lane="bulk"} 60
fanmail_lane_drain_seconds{lane="express"} 0
fanmail_lane_drain_seconds{lane="medium"} +Inf
`)))
	d.bus = told{err: errors.New("away")}
	require.Zero(t, testutil.CollectAndCount(meter.Live(d.collect)), "what is not known is not told")
}

func TestDrainSeconds(t *testing.T) {
	t.Parallel()
	require.Zero(t, drainSeconds(0, 0), "there is nothing to drain")
	require.True(t, math.IsInf(drainSeconds(1, 0), 1))
	require.InDelta(t, 200, drainSeconds(20, 0.1), 1e-9)
}

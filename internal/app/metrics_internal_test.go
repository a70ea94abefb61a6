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
	d.bus = fixedBacklog{tasks: map[event.Lane]bus.Queue{event.Express: {}, event.Medium: {Messages: 3}, event.Bulk: {Messages: 30}}}
	require.NoError(t, testutil.CollectAndCompare(meter.Live(d.collect), strings.NewReader(`
# HELP fanmail_lane_drain_seconds Time until a lane is empty, if only this process works, at its rate of the last minutes, and no task is added; +Inf while there are tasks and it finished none.
# TYPE fanmail_lane_drain_seconds gauge
fanmail_lane_drain_seconds{lane="bulk"} 60
fanmail_lane_drain_seconds{lane="express"} 0
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

package fanout

import (
	"context"
	"time"

	"github.com/fanmail/fanmail/internal/bus"
)

const (
	// routeTries is how often an event is tried alone before it makes way for others, within half a second if its errors come at once.
	routeTries = 4
	// asideFor is how long an event that has made way is left alone. It bounds what an outage costs beyond its end.
	asideFor = 5 * time.Second
)

// routeApart routes events one by one that could not be routed together, so that one that cannot be routed stands in nobody's way. And
// little is emitted twice then: a bus with little room is not filled with repetitions. Those that fail go back to the bus, which
// hands out others meanwhile. The only error is that of a ctx that has ended.
func (r *Router) routeApart(ctx context.Context, received []bus.Received, cause error) error {
	r.metrics.retries.Inc()
	about(r.opts.Logger.Warn().Err(cause), received[0].Delivery()).Int("events", len(received)).
		Msg("published messages could not be routed together: routing them one by one")
	pauses := newPauses()
	for try := 1; ; try++ {
		received, cause = r.routeEach(ctx, received)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case len(received) == 0:
			return nil
		case try == routeTries:
			about(r.opts.Logger.Error().Err(cause), received[0].Delivery()).Int("events", len(received)).Dur("again_in", asideFor).
				Msg("published messages cannot be routed for now: others go first")
			r.metrics.deferrals.Add(float64(len(received)))
			r.release(received, asideFor)
			return nil
		}
		pause(ctx, pauses.NextBackOff())
	}
}

// routeEach routes events one by one. It returns those that failed, and why the first of them did. For room on the bus it waits,
// since others would lack it, too.
func (r *Router) routeEach(ctx context.Context, received []bus.Received) (failed []bus.Received, cause error) {
	for i, item := range received {
		err := repeat(ctx, r.opts.Logger, r.metrics.retries, GoOn, "route", func() error { return r.Route(ctx, received[i:i+1]) })
		if err == nil {
			continue
		}
		r.metrics.retries.Inc()
		if cause == nil {
			cause = err
		}
		failed = append(failed, item)
	}
	return failed, cause
}

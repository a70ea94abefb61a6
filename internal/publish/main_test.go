package publish_test

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/publish"
	"github.com/fanmail/fanmail/internal/tally"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/leaktest"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// late is a message.Store with slow inserts.
type late struct {
	message.Store
	clock *rig.Clock
	// delays are the durations of the next inserts, in order.
	delays []time.Duration
}

// Insert implements message.Store.
func (s *late) Insert(ctx context.Context, messages []message.Message, timing message.Timing) ([]message.Stamp, error) {
	if len(s.delays) > 0 {
		s.clock.Advance(s.delays[0])
		s.delays = s.delays[1:]
	}
	return s.Store.Insert(ctx, messages, timing)
}

// emitter is a bus that records events, or fails.
type emitter struct {
	err     error
	emitted []event.Published
}

// EmitPublished implements bus.Publisher.
func (e *emitter) EmitPublished(_ context.Context, events []event.Published, _ bool) error {
	if e.err == nil {
		e.emitted = append(e.emitted, events...)
	}
	return e.err
}

// desk is a publisher on a real store.
type desk struct {
	*rig.Rig
	*publish.Service
	store   *late
	emitter *emitter
	tally   tally.Tally
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	r, err := rig.Open(t.Context(), rig.NewClock(), nil, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	d := &desk{Rig: r, store: &late{Store: r.Messages, clock: r.Clock}, emitter: &emitter{}}
	d.Service = d.colleague(0)
	return d
}

// colleague returns another publisher on the same store, whose clock is ahead by skew.
func (d *desk) colleague(skew time.Duration) *publish.Service { return d.measured(skew, nil) }

// measured is colleague with metrics.
func (d *desk) measured(skew time.Duration, metrics prometheus.Registerer) *publish.Service {
	return publish.New(d.store, d.Keys, d.emitter, d.options(skew, metrics, zerolog.Nop()))
}

// logged is colleague with a log.
func (d *desk) logged(skew time.Duration, log io.Writer) *publish.Service {
	return publish.New(d.store, d.Keys, d.emitter, d.options(skew, nil, zerolog.New(log)))
}

func (d *desk) options(skew time.Duration, metrics prometheus.Registerer, logger zerolog.Logger) publish.Options {
	return publish.Options{
		Limits: message.DefaultLimits(), Rules: rig.Rules, KeyTTL: func() time.Duration { return rig.KeyTTL },
		Now: d.Clock.Skewed(skew), Random: rig.UniqueBytes{}, Logger: logger, Metrics: metrics, Tally: &d.tally,
	}
}

func request(key, body string) publish.Request {
	return publish.Request{Key: key, Draft: message.Draft{From: "author", Audience: message.AudienceFollowers, Body: body}}
}

func one(t *testing.T, results []publish.Result) message.Message {
	t.Helper()
	require.Len(t, results, 1)
	require.NoError(t, results[0].Err)
	return results[0].Message
}

// valid returns the author's messages that are not void.
func (d *desk) valid(t *testing.T) []message.ID {
	t.Helper()
	everything := []message.Range{{From: "author", Before: message.MaxID}}
	stored, err := d.Messages.ToFollowers(t.Context(), everything, message.OldestFirst, 1000)
	require.NoError(t, err)
	var ids []message.ID
	for _, s := range stored {
		if !s.Void {
			ids = append(ids, s.ID)
		}
	}
	return ids
}

package publish_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/publish"
	"github.com/fanmail/fanmail/internal/tally"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

// Every message is counted once: as accepted, or under the reason for its refusal.
func TestMetrics(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	measured := prometheus.NewRegistry()
	d.Service = d.measured(0, measured)
	d.Publish(t.Context(), []publish.Request{request("", "good"), request("key", "body"), request("", "")})
	d.Publish(t.Context(), []publish.Request{request("key", "body")})
	d.Publish(t.Context(), []publish.Request{request("key", "another body")})
	for range 3 {
		d.store.delays = append(d.store.delays, 2*rig.Slack)
	}
	d.Publish(t.Context(), []publish.Request{request("", "slow")})
	d.store.delays = []time.Duration{-time.Minute} // the clock is corrected meanwhile
	d.Publish(t.Context(), []publish.Request{request("", "ahead"), request("", "ahead")})
	d.emitter.err = errors.New("the stream is full")
	d.Publish(t.Context(), []publish.Request{request("", "stored all the same"), request("", "this too")})
	d.Publish(t.Context(), []publish.Request{request("", "refused")})
	require.NoError(t, testutil.GatherAndCompare(measured, strings.NewReader(`
# HELP fanmail_messages_accepted_total Messages that were accepted: stored, or found stored under their idempotency key.
# TYPE fanmail_messages_accepted_total counter
fanmail_messages_accepted_total 5
# HELP fanmail_messages_refused_total Messages that were not accepted.
# TYPE fanmail_messages_refused_total counter
fanmail_messages_refused_total{reason="busy"} 1
fanmail_messages_refused_total{reason="canceled"} 0
fanmail_messages_refused_total{reason="clock_ahead"} 2
fanmail_messages_refused_total{reason="invalid"} 1
fanmail_messages_refused_total{reason="key_reused"} 1
fanmail_messages_refused_total{reason="late"} 1
fanmail_messages_refused_total{reason="unavailable"} 0
# HELP fanmail_messages_unemitted_total Messages that were accepted although the bus did not take their events.
# TYPE fanmail_messages_unemitted_total counter
fanmail_messages_unemitted_total 2
`), "fanmail_messages_accepted_total", "fanmail_messages_refused_total", "fanmail_messages_unemitted_total"))
	require.Equal(t, tally.Counters{Accepted: 4}, d.tally.Read(), "one was found stored")
}

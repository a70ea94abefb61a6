//go:build long && mongodb

package faults_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/test/testenv"
)

// TestSlowNetwork publishes messages, fans them out, and lets users return over a slow network.
func TestSlowNetwork(t *testing.T) {
	t.Parallel()
	const lines = 60
	ctx := bounded(t)
	uri, database := testenv.MongoDB(t)
	n := testenv.NewProxy(t, uri)
	w := newWorld(t, nil)
	w.use(ctx, n.URI(), database)
	s := w.start(ctx)
	n.Set(t, testenv.Fault{Request: 5 * time.Millisecond, Reply: 5 * time.Millisecond, Rate: 100_000})
	driver := w.drive(ctx, w.cast.script(lines, true), "--pace", "30")
	w.awaitAccepted(ctx, driver, lines/3)
	w.done(ctx, w.login(ctx, w.cast.away))
	w.done(ctx, driver)
	w.requireRight(ctx)
	w.awaitReady(ctx, http.StatusOK)
	for _, l := range s.log(t) { // an operation may be late on a busy machine, and concurrent writers of a document retry; but no connection may break
		if l.message() == again {
			require.NotRegexp(t, "EOF|reset|refused", l["error"])
		}
	}
	w.stop(ctx, s)
}

// TestBrokenNetwork interrupts the network several times while messages are published and fanned out and users return.
func TestBrokenNetwork(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		fault   testenv.Fault
		noticed bool // the server noticed the outage
	}{
		{"refused", testenv.Fault{Refuse: true}, true},
		{"reset", testenv.Fault{Reset: true}, true},
		{"black hole", testenv.Fault{BlackHole: true}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			const times, lines = 2, 300
			ctx := bounded(t)
			uri, database := testenv.MongoDB(t)
			n := testenv.NewProxy(t, uri)
			w := newWorld(t, nil)
			w.use(ctx, n.URI(), database)
			s := w.start(ctx)
			driver := w.drive(ctx, w.cast.script(lines, true), "--pace", "30")
			w.awaitAccepted(ctx, driver, lines/4)
			login := w.login(ctx, w.cast.away)
			for i := range times {
				w.awaitAccepted(ctx, driver, lines*(i+1)/(times+1))
				n.Set(t, test.fault)
				w.outage(ctx, func() { n.Set(t, testenv.Fault{}) }, driver)
			}
			w.done(ctx, driver)
			w.done(ctx, login)
			w.requireRight(ctx)
			if test.noticed {
				w.requireNoticed(ctx, s, times)
			} else {
				require.Positive(t, s.count(t, again), "nobody has noticed")
				w.requireNoticed(ctx, s, 0)
			}
			w.stop(ctx, s)
		})
	}
}

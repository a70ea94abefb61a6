//go:build long && mongodb

package faults_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/test/testenv"
)

// TestAwayAtTheStart starts Fanmail before its database server. Fanmail must wait, answer that it is not ready, and continue by
// itself when the server answers.
func TestAwayAtTheStart(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		fault testenv.Fault
	}{
		{"nobody listens", testenv.Fault{Refuse: true}},
		{"nobody replies", testenv.Fault{BlackHole: true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			ctx := bounded(t)
			uri, database := testenv.MongoDB(t)
			n := testenv.NewProxy(t, uri)
			w := newWorld(t, nil)
			w.use(ctx, n.URI(), database)
			n.Set(t, test.fault)
			s := w.launch(ctx)
			w.await(ctx, "the log says that it waits", func() bool { return s.count(t, silence) > 0 })
			for _, refused := range w.askAll(ctx,
				get("/readyz"), get("/v1/users/ben/inbox"), request{http.MethodPost, "/v1/users/ben/login", ""},
				request{http.MethodPost, "/v1/messages", `{"from":"ann","to":["ben"],"body":"hello"}`},
			) {
				require.Equal(t, http.StatusServiceUnavailable, refused.status)
				require.Equal(t, "the server is not ready: it is starting, and waits for the store", refused.Detail)
				require.Equal(t, "1", refused.retryAfter)
			}
			require.Equal(t, http.StatusOK, w.ask(ctx, get("/healthz")).status, "to start it again would not help")

			n.Set(t, testenv.Fault{})
			w.awaitReady(ctx, http.StatusOK)
			w.people(ctx)
			w.done(ctx, w.drive(ctx, w.cast.script(20, false)))
			w.done(ctx, w.login(ctx, w.cast.away))
			w.requireRight(ctx)
			require.Equal(t, 1, s.count(t, "fanmail is ready"))
			w.stop(ctx, s)
		})
	}
}

// TestStoppedWhileAway stops and restarts Fanmail while its database server is unreachable. Fanmail must stop in time and report
// that it has aborted work. The work must finish after the restart.
func TestStoppedWhileAway(t *testing.T) {
	t.Parallel()
	const lines = 120
	ctx := bounded(t)
	uri, database := testenv.MongoDB(t)
	n := testenv.NewProxy(t, uri)
	w := newWorld(t, map[string]string{"drain_timeout": "2s"})
	w.use(ctx, n.URI(), database)
	s := w.start(ctx)
	driver := w.drive(ctx, w.cast.script(lines, false), "--pace", "30")
	w.awaitAccepted(ctx, driver, lines/6)
	n.Set(t, testenv.Fault{Refuse: true})
	w.awaitReady(ctx, http.StatusServiceUnavailable)
	s.Terminate()
	require.Equal(t, 1, s.Code(ctx))
	require.Contains(t, s.Stderr(), "requests were cut off")

	s = w.launch(ctx)
	w.await(ctx, "the log says that it waits", func() bool { return s.count(t, silence) > 0 })
	n.Set(t, testenv.Fault{})
	w.awaitReady(ctx, http.StatusOK)
	w.done(ctx, driver)
	w.done(ctx, w.login(ctx, w.cast.away))
	w.requireRight(ctx)
	w.stop(ctx, s)
}

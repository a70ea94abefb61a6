//go:build long && mongodb

package faults_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/test/testenv"
)

// TestLongOutage makes the database unusable for longer than the timeout of operations, while messages are published and fanned
// out, and an inbox is being rebuilt. Requests must be refused in time. All other work must be retried, and must finish after the
// outage without another request.
func TestLongOutage(t *testing.T) {
	t.Parallel()
	const (
		slow    = 300 * time.Millisecond // delays the rebuild of an inbox
		timeout = 10 * time.Second       // longer than an operation takes on a busy machine without a fault
	)
	for _, test := range []struct {
		name  string
		fault testenv.Fault
	}{
		{"refused", testenv.Fault{Refuse: true}},
		// The server executes operations after their timeout, and after Fanmail has repeated them.
		{"late", testenv.Fault{Request: timeout + time.Second, Reply: slow}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			const lines = 60
			ctx := bounded(t)
			uri, database := testenv.MongoDB(t)
			n := testenv.NewProxy(t, uri)
			w := newWorld(t, nil)
			w.use(ctx, n.URI(), database)
			w.site.Settings["mongodb.timeout"] = timeout.String()
			s := w.start(ctx)
			driver := w.drive(ctx, w.cast.script(lines, true), "--pace", "20")
			w.awaitAccepted(ctx, driver, lines/3)
			n.Set(t, testenv.Fault{Reply: slow})
			user := w.cast.away[0]
			w.unlogged(user)
			begun := w.ask(ctx, request{http.MethodPost, "/v1/users/" + user + "/login?wait=0s", ""})
			require.Equal(t, http.StatusAccepted, begun.status, begun.text)
			n.Set(t, test.fault)

			for _, refused := range w.askAll(ctx,
				request{http.MethodPost, "/v1/messages", `{"from":"ann","to":["ben"],"body":"hello"}`},
				request{http.MethodGet, "/v1/users/ben/inbox", ""},
				request{http.MethodPost, "/v1/users/cleo/login", ""},
				request{http.MethodPut, "/v1/users/ben/following/ann", ""},
			) {
				require.Equal(t, http.StatusServiceUnavailable, refused.status, refused.text)
				require.Equal(t, client.ProblemUnavailable, refused.Type)
				require.Equal(t, "1", refused.retryAfter)
			}
			for _, message := range []string{sweepError, reapError, attemptError, leftToLease} {
				w.await(ctx, "the log says: "+message, func() bool { return s.count(t, message) > 0 })
			}
			require.Positive(t, w.metric(ctx, `fanmail_rehydration_attempts_total{outcome="failed"}`))
			w.outage(ctx, func() { n.Set(t, testenv.Fault{}) })

			w.await(ctx, "the inbox is rebuilt", func() bool {
				var page client.InboxPage
				got := w.ask(ctx, get("/v1/users/"+user+"/inbox?peek=true"))
				if got.status == http.StatusServiceUnavailable { // the database is still busy with old operations
					return false
				}
				require.Equal(t, http.StatusOK, got.status, got.text)
				require.NoError(t, json.Unmarshal([]byte(got.text), &page))
				return page.Complete
			})
			w.done(ctx, driver)
			w.done(ctx, w.login(ctx, w.cast.away))
			w.requireRight(ctx)
			require.Zero(t, w.metric(ctx, "fanmail_rehydration_oldest_seconds"))
			require.Positive(t, s.count(t, takenOver))
			w.stop(ctx, s, sweepError, reapError, attemptError, routeError)
		})
	}
}

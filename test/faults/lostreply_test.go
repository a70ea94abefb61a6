//go:build long && mongodb

package faults_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/test/testenv"
)

// TestLostReplies drops replies of the database server to executed commands. Meanwhile messages are published and fanned out, and
// users follow, unfollow and return.
func TestLostReplies(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		loss testenv.Fault
	}{
		{"writes", testenv.Fault{Lose: 40, OnlyWrites: true}},
		{"cut in mid-reply", testenv.Fault{Lose: 100, Cut: true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			const lines, least = 80, 5
			ctx := bounded(t)
			uri, database := testenv.MongoDB(t)
			n := testenv.NewProxy(t, uri)
			n.Set(t, test.loss)
			w := newWorld(t, nil)
			w.use(ctx, n.URI(), database)
			s := w.start(ctx)
			driver := w.drive(ctx, w.cast.script(lines, true), "--pace", "30")
			w.awaitAccepted(ctx, driver, lines/2)
			w.done(ctx, w.login(ctx, w.cast.away))
			w.done(ctx, driver)
			// The number of commands depends on how many the server has combined. Each page view adds a write.
			for n.Lost() <= least {
				w.ask(ctx, get("/v1/users/"+w.cast.fans[0]+"/inbox"))
			}
			w.requireRight(ctx)
			w.awaitReady(ctx, http.StatusOK)
			t.Logf("%d replies were lost", n.Lost())
			require.Positive(t, s.count(t, again), "nobody has noticed")
			w.stop(ctx, s)
		})
	}
}

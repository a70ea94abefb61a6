package cli_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/cli/program"
	"github.com/fanmail/fanmail/pkg/client"
)

// answering returns the URL of a server that has one answer for each path.
func answering(t *testing.T, answers map[string]string, asked func(path string)) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked(r.URL.Path)
		answer, ok := answers[r.URL.Path]
		w.Header().Set("Content-Type", "application/json")
		if !ok {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

const seenOnce = `{"lanes":[{"lane":"routing","waiting":1200,"oldest_seconds":90,"rate":4,"about":true,"at_least":true,"seconds_to_empty":300},{"lane":"bulk","waiting":0}],
"processes":[{"name":"a-1","role":"publisher","version":"v1","address":":80","state":"running","seen":"2026-01-02T03:04:05.000Z","alive":true,"accepted_rate":2.5,"delivered_rate":0},
{"name":"b-2","role":"rehydrator","state":"running","seen":"2026-01-02T03:04:05.000Z","alive":false}],
"dead_letters":{"total":2},"rehydrations":{"waiting":3,"running":1},
"totals":{"accepted":5,"delivered":6,"delivered_bytes":7,"skipped":{"dormant":1,"never_seen":2,"blocked":3,"bytes":4},"rebuilt":{"users":0,"messages":0},"about":true},
"warnings":[{"kind":"dead-letters","text":"look\u001b[2J"}]}`

func TestTop(t *testing.T) {
	t.Parallel()
	url := answering(t, map[string]string{"/v1/admin/overview": seenOnce}, func(string) {})
	require.Equal(t, `lane     waiting  oldest  a second      empty in
routing  1,200    1 min   at least 4.0  5 min
bulk     0        -       -             -

process  roles       version  address  state    seen                 accepted/s  delivered/s
a-1      publisher   v1       :80      running  2026-01-02 03:04:05  2.5         0.0
b-2      rehydrator                    gone     2026-01-02 03:04:05  -           -

rehydrations  3 waiting, 1 running
dead letters  2
ever          5 accepted, 6 delivered, about 6 skipped
! `+program.Printable("look\x1b[2J")+"\n", fanmail(t, "top", "--once", "--server", url))
	shown := fromJSON[client.Overview](t, fanmail(t, "top", "--once", "--json", "--server", url))
	require.Equal(t, int64(1200), shown.Lanes[0].Waiting)
}

// Without --once the command goes on until a signal, which is no failure.
func TestTopGoesOn(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	var asked atomic.Int64
	url := answering(t, map[string]string{
		"/v1/admin/overview": `{}`,
		"/v1/messages":       `{"messages":[{"id":"019b7ca9-8c88-7000-8000-000000000000","from":"ann","sent":"2026-01-02T03:04:05.000Z","state":"running","recipients":1,"delivered":1,"skipped":0}],"next":null}`,
	}, func(path string) {
		if path == "/v1/messages" && asked.Add(1) == 2 {
			interrupt()
		}
	})
	got := run{args: []string{"top", "--server", url}, width: 80}.do(ctx, t)
	require.Equal(t, program.ExitDone, got.code, got.stderr)
	require.Empty(t, got.stderr)
	require.True(t, strings.HasPrefix(got.stdout, "\x1b[H\x1b[2J"), got.stdout)
	require.Contains(t, got.stdout, "019b7ca9-8c88-7000-8000-000000000000  ann")
}

func TestDormancy(t *testing.T) {
	t.Parallel()
	url := answering(t, map[string]string{"/v1/admin/dormancy": `{"users":{"active":3,"dormant":1000,"about":true},
"skipped":{"dormant":1000,"never_seen":20,"blocked":3,"bytes":4096},"rebuilt":{"users":1,"messages":19},
"if":[{"dormant_after":"6h","copies":5,"rebuilds":7},{"dormant_after":"never","copies":1005,"rebuilds":0}]}`}, func(string) {})
	require.Equal(t, `users    about 3 active, 1,000 dormant
skipped  1,000 for dormant users, 20 for users never seen, 3 because of a block
rebuilt  1 inbox, with 19 messages

dormant_after  copies  rebuilds
6h             5       7
never          1,005   0

Dormancy has saved about 1,001 copies: 1,020 (4,096 bytes) were skipped, and 19 made later.
`, fanmail(t, "dormancy", "--server", url))
}

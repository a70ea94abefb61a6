package cli_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/cli/program"
	"github.com/fanmail/fanmail/pkg/client"
)

const (
	firstListed  = `{"id":"019b7ca9-8c88-7000-8000-000000000001","from":"ann","sent":"2026-01-02T03:04:05.000Z","state":"running","lane":"bulk","recipients":12000,"delivered":11999,"skipped":1,"waiting_for":"room"}`
	secondListed = `{"id":"019b7ca9-8c88-7000-8000-000000000002","from":"newsroom","sent":"2026-01-02T03:04:30.000Z","state":"pending","recipients":0,"delivered":0,"skipped":0}`
)

// TestMessages lists messages of a server that has two pages, and an empty one between them.
func TestMessages(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page := map[string]string{"": firstListed + `],"next":"a"`, "a": `],"next":"b"`, "b": secondListed + `],"next":null`}[r.URL.Query().Get("after")]
		if r.URL.Query().Get("from") == "nobody" {
			page = `],"next":null`
		}
		_, _ = fmt.Fprintf(w, `{"messages":[%s}`, page)
	}))
	t.Cleanup(server.Close)
	now := func() time.Time { return time.Date(2026, 1, 2, 3, 9, 10, 0, time.UTC) }
	const head = "ID                                    FROM  SENT   STATE    LANE  RECIPIENTS  DELIVERED  SKIPPED  WAITS FOR\n" +
		"019b7ca9-8c88-7000-8000-000000000001  ann   5 min  running  bulk  12,000      11,999     1        room\n"
	for args, want := range map[string]string{
		"":                                     head + "more: fanmail messages --after a\n",
		"--state running --from ann":           head + "more: fanmail messages --state running --from 'ann' --after a\n",
		"--from nobody":                        "there are no such messages\n",
		"--json":                               `{"messages":[` + firstListed + `],"next":"a"}` + "\n",
		"--all --json":                         firstListed + "\n" + secondListed + "\n",
		"--all":                                head + "019b7ca9-8c88-7000-8000-000000000002  newsroom  4 min  pending        0           0          0\n",
		"--state dead --from nobody --after a": "there are no such messages\n",
	} {
		got := run{args: append(append([]string{"messages"}, strings.Fields(args)...), "--server", server.URL), now: now}.do(t.Context(), t)
		require.Zero(t, got.code, got.stderr)
		require.Equal(t, want, got.stdout, args)
	}
	for args, want := range map[string]string{
		"--all --limit 3": "--all prints everything: give it without --limit and --after",
		"--limit 0":       "--limit is 0: give 1 or more",
	} {
		got := run{args: append(append([]string{"messages"}, strings.Fields(args)...), "--server", server.URL)}.do(t.Context(), t)
		require.Equal(t, program.ExitUsage, got.code)
		require.Contains(t, got.stderr, want)
	}
}

// TestMessagesThatAreDone asks a real server.
func TestMessagesThatAreDone(t *testing.T) {
	t.Parallel()
	url := serve(t)
	saw(t, url, "ben")
	id := strings.TrimSpace(strings.Split(fanmail(t, "publish", "--server", url, "--wait", "--from", "ann", "--to", "ben", "--body", "x"), "\n")[0])
	require.Equal(t, "there are no such messages\n", fanmail(t, "messages", "--server", url))
	page := fromJSON[client.MessagePage](t, fanmail(t, "messages", "--state", "done", "--from", "ann", "--json", "--server", url))
	require.Len(t, page.Messages, 1)
	require.Equal(t, id, page.Messages[0].ID.String())
	require.EqualValues(t, 1, page.Messages[0].Delivered)
}

package cli_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/cli/program"
)

// frames are what a server sends: the first page, a message, a deletion, a mark, and a rebuild that has ended.
var frames = []string{
	`{"messages":[{"id":"019b7ca9-8c89-7000-8000-000000000001","from":"ann","sent":"2026-01-02T03:04:06.000Z","body":"two"},` +
		`{"id":"019b7ca9-8c88-7000-8000-000000000000","from":"ann","sent":"2026-01-02T03:04:05.000Z","body":"one"}],` +
		`"total":2,"unread":2,"complete":false,"version":[2],"reset":true,"cursor":"c2"}`,
	`{"messages":[{"id":"019b7ca9-8c90-7000-8000-000000000002","from":"eve","sent":"2026-01-02T03:04:07.000Z","body":"three\nlines"}],` +
		`"total":3,"unread":3,"complete":false,"version":[3],"cursor":"c3"}`,
	`{"gone":["019b7ca9-8c88-7000-8000-000000000000"],"total":2,"unread":2,"complete":false,"version":[4],"cursor":"c4"}`,
	`{"flags":[{"id":"019b7ca9-8c90-7000-8000-000000000002","read":true,"archived":false}],"total":2,"unread":1,"complete":false,"version":[5],"cursor":"c5"}`,
	`{"total":2,"unread":1,"complete":true,"version":[6],"cursor":"c6"}`,
}

// An operator follows an inbox until a signal, which is no failure.
func TestInboxFollow(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		flags       []string
		query, want string
	}{
		"text": {nil, "peek=true", "ben: 2 messages, 2 unread, dormant or still loading\n" +
			"2026-01-02 03:04:05  ann  one\n2026-01-02 03:04:06  ann  two\n2026-01-02 03:04:07  eve  three\n" +
			"deleted: 019b7ca9-8c88-7000-8000-000000000000\nben: 2 messages, 2 unread, dormant or still loading\n" +
			"ben: 2 messages, 1 unread, dormant or still loading\nben: 2 messages, 1 unread\n"},
		"as the user": {[]string{"--as-user"}, "", "ben: 2 messages, 2 unread, still loading\n"},
		"json":        {[]string{"--json"}, "peek=true", `{"gone":["019b7ca9-8c88-7000-8000-000000000000"],"total":2,`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, interrupt := context.WithCancel(t.Context())
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Last-Event-ID") == "c6" { // the command has all frames
					require.Equal(t, test.query, r.URL.RawQuery)
					interrupt()
					return
				}
				w.Header().Set("Content-Type", "text/event-stream")
				for _, frame := range frames {
					_, _ = fmt.Fprintf(w, "event: frame\ndata: %s\n\n", frame)
				}
			}))
			t.Cleanup(server.Close)
			got := run{args: append([]string{"inbox", "ben", "--follow", "--server", server.URL}, test.flags...)}.do(ctx, t)
			require.Equal(t, program.ExitDone, got.code, got.stderr)
			require.Empty(t, got.stderr)
			if name == "text" {
				require.Equal(t, test.want, got.stdout)
				return
			}
			require.Contains(t, got.stdout, test.want)
			require.Equal(t, name == "json", strings.Count(got.stdout, "\n") == len(frames))
		})
	}
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	got := run{args: []string{"inbox", "ben", "--follow", "--server", server.URL}}.do(t.Context(), t)
	require.Equal(t, program.ExitFailed, got.code)
	got = run{args: []string{"inbox", "ben", "--follow", "--limit", "3", "--server", server.URL}}.do(t.Context(), t)
	require.Equal(t, program.ExitUsage, got.code)
	require.Contains(t, got.stderr, "--follow prints the newest messages and all that arrive: give it without --limit")
}

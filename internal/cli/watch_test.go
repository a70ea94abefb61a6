package cli_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestWaitShowsATotal waits for a message that takes longer than a moment.
func TestWaitShowsATotal(t *testing.T) {
	t.Parallel()
	var estimated atomic.Bool
	var looks atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		state, audience := "running", ""
		switch n := looks.Add(1); {
		case r.URL.Query().Get("estimate") == "true":
			estimated.Store(true)
			audience = `,"audience":4000`
		case estimated.Load(), n > 9:
			state = "done"
		}
		_, _ = fmt.Fprintf(w, `{"id":"019b7ca9-8c88-7000-8000-000000000000","from":"ann","sent":"2026-01-02T03:04:05Z","body":"x",`+
			`"fanout":{"state":%q,"recipients":1000,"delivered":1000,"skipped":0%s}}`, state, audience)
	}))
	t.Cleanup(server.Close)
	got := run{args: []string{"status", "019b7ca9-8c88-7000-8000-000000000000", "--wait", "--server", server.URL}, width: 80}.do(t.Context(), t)
	require.Zero(t, got.code, got.stderr)
	require.Contains(t, got.stderr, "handled recipients: 1,000 of about 4,000 (25%)")
	require.Contains(t, got.stdout, "recipients  1,000\n")
}

// TestWatch watches a message whose fan-out handles a fixed number of recipients between two polls.
func TestWatch(t *testing.T) {
	t.Parallel()
	var looks atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, audience := looks.Add(1)-1, ""
		if r.URL.Query().Get("estimate") == "true" {
			audience = `,"audience":4000`
		}
		state := "running"
		if n == 3 {
			state = "done"
		}
		_, _ = fmt.Fprintf(w, `{"id":"019b7ca9-8c88-7000-8000-000000000000","from":"ann","sent":"2026-01-02T03:04:05Z","body":"x",`+
			`"fanout":{"state":%q,"recipients":%d,"delivered":%d,"skipped":0%s}}`, state, n*1000, n*1000, audience)
	}))
	t.Cleanup(server.Close)
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var reads atomic.Int64
	clock := func() time.Time { return began.Add(time.Duration(reads.Add(1)) * 2 * time.Second) }
	args := []string{"status", "019b7ca9-8c88-7000-8000-000000000000", "--watch", "--server", server.URL}
	got := run{args: args, now: clock}.do(t.Context(), t)
	require.Zero(t, got.code, got.stderr)
	require.Contains(t, got.stdout, "running  0 of about 4,000, 0 a second\n"+
		"running  1,000 of about 4,000, 500 a second, about 6.0 s to go\n"+
		"running  2,000 of about 4,000, 500 a second, about 4.0 s to go\n"+
		"message     019b7ca9-8c88-7000-8000-000000000000\n")

	looks.Store(2)
	got = run{args: append(args, "--json"), now: clock}.do(t.Context(), t)
	require.Zero(t, got.code, got.stderr)
	var first struct {
		State       string   `json:"state"`
		Audience    int64    `json:"audience"`
		SecondsLeft *float64 `json:"seconds_left"`
	}
	require.NoError(t, json.Unmarshal([]byte(got.stdout[:len(`{"state":"running","recipients":2000,"delivered":2000,"skipped":0,"audience":4000,"rate":0}`)]), &first))
	require.Equal(t, "running", first.State)
	require.EqualValues(t, 4000, first.Audience)
	require.Nil(t, first.SecondsLeft)
}

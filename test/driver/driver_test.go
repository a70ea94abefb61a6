package main_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	driver "github.com/fanmail/fanmail/test/driver"
	"github.com/fanmail/fanmail/test/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs strings.Builder
	var calls atomic.Int64
	now := func() time.Time { // advances by a second per call
		return time.Date(2026, 1, 31, 12, 0, int(calls.Add(1))-1, 0, time.UTC)
	}
	code = driver.Run(t.Context(), args, &out, &errs, now)
	return code, out.String(), errs.String()
}

func lines(text string) []string { return strings.Split(strings.TrimSuffix(text, "\n"), "\n") }

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestUsers(t *testing.T) {
	t.Parallel()
	lastSeen := write(t, "ann\t0.5\nben\t\ncleo\t31\n")
	code, stdout, stderr := run(t, "users", "--last-seen", lastSeen)
	require.Zero(t, code)
	require.Equal(t, []string{
		`{"user":"ann","last_viewed":"2026-01-31T00:00:00Z"}`,
		`{"user":"cleo","last_viewed":"2025-12-31T12:00:00Z"}`,
	}, lines(stdout))
	require.Equal(t, "3 users, of whom 2 are dormant; 1 of these were never seen\n", stderr)

	code, stdout, _ = run(t, "users", "--follows", write(t, "ben\tann\n"), "--now", "2026-01-01T00:00:00Z")
	require.Zero(t, code)
	require.Equal(t, []string{
		`{"user":"ann","last_viewed":"2026-01-01T00:00:00Z"}`,
		`{"user":"ben","last_viewed":"2026-01-01T00:00:00Z"}`,
	}, lines(stdout))
}

// TestTraceUsers checks the number of dormant users in the recorded trace.
func TestTraceUsers(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := run(t, "users", "--last-seen", "../testdata/email-eu.last-seen.tsv")
	require.Zero(t, code)
	require.Equal(t, 816-144, strings.Count(stdout, "\n"))
	require.Equal(t, "816 users, of whom 251 are dormant; 144 of these were never seen\n", stderr)
}

func TestCelebrities(t *testing.T) {
	t.Parallel()
	follows := write(t, "a\tx\na\ty\nb\ty\nb\tz\nc\tz\n")
	code, stdout, _ := run(t, "celebrities", "--follows", follows, "--count", "2", "--each", "2")
	require.Zero(t, code)
	require.Equal(t, []string{
		`{"from":"y","audience":"followers","body":"message 1 to 2 followers"}`,
		`{"from":"z","audience":"followers","body":"message 1 to 2 followers"}`,
		`{"from":"y","audience":"followers","body":"message 2 to 2 followers"}`,
		`{"from":"z","audience":"followers","body":"message 2 to 2 followers"}`,
	}, lines(stdout))
}

func TestViews(t *testing.T) {
	t.Parallel()
	code, stdout, _ := run(t, "views", "--mails", write(t, `{"from":"ann","to":["ben","cy"],"body":"mail 0 at second 90"}`+"\n"))
	require.Zero(t, code)
	require.Equal(t, []string{
		`{"view":"ann","time":"2026-01-01T00:01:29.999Z"}`,
		`{"publish":"ann","to":["ben","cy"],"time":"2026-01-01T00:01:30Z"}`,
	}, lines(stdout))
	code, _, stderr := run(t, "views", "--mails", write(t, `{"from":"ann","to":["ben"],"body":"hello"}`+"\n"))
	require.Equal(t, 1, code)
	require.Contains(t, stderr, `:1: the body "hello" does not tell the second`)
}

// shaky is a server that breaks off every other request, half of them after it has accepted the message, and that is sometimes
// busy, or says that its clock is ahead.
type shaky struct {
	mu       sync.Mutex
	requests int
	accepted map[string]string // bodies by idempotency key
}

func (s *shaky) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	key := r.Header.Get("Idempotency-Key")
	s.mu.Lock()
	s.requests++
	request := s.requests
	if request%4 > 1 {
		s.accepted[key] = string(body)
	}
	s.mu.Unlock()
	switch request % 4 {
	case 0:
		w.WriteHeader(http.StatusServiceUnavailable)
		if request%8 == 0 { // an error means that the client is gone
			_, _ = io.WriteString(w, `{"type":"urn:fanmail:problem:clock-ahead"}`)
		}
	case 1, 2:
		panic(http.ErrAbortHandler)
	default:
		w.WriteHeader(http.StatusAccepted)
		_, _ = fmt.Fprintf(w, `{"id":"id of %s","from":"ann"}`, key) // an error means that the client is gone
	}
}

func TestPublish(t *testing.T) {
	t.Parallel()
	const messages = 12
	s := &shaky{accepted: make(map[string]string)}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	var lines strings.Builder
	for i := range messages + 5 {
		fmt.Fprintf(&lines, `{"from":"ann","to":["ben"],"body":"message %d"}`+"\n", i+1)
	}
	log := filepath.Join(t.TempDir(), "log")
	code, stdout, stderr := run(t, "publish", "--server", server.URL, "--file", write(t, lines.String()), "--log", log,
		"--connections", "3", "--first", strconv.Itoa(messages), "--key", "k", "--json")
	require.Zero(t, code, stderr)
	var summary struct{ Accepted, Broken, Busy, Ahead int }
	require.NoError(t, json.Unmarshal([]byte(stdout), &summary))
	require.Equal(t, messages, summary.Accepted)
	require.Positive(t, summary.Broken)
	require.Positive(t, summary.Busy)
	require.Positive(t, summary.Ahead)

	text, err := os.ReadFile(log)
	require.NoError(t, err)
	logged := make(map[string]string)
	for line := range strings.Lines(string(text)) {
		var m struct {
			Line                 int
			ID, From, Body, Sent string
			To                   []string
			Tries                int
		}
		require.NoError(t, json.Unmarshal([]byte(line), &m))
		require.Equal(t, fmt.Sprintf("message %d", m.Line), m.Body)
		require.Equal(t, fmt.Sprintf("id of k-%d", m.Line), m.ID)
		require.Equal(t, []string{"ann", "ben"}, []string{m.From, m.To[0]})
		require.Positive(t, m.Tries)
		logged[fmt.Sprintf("k-%d", m.Line)] = fmt.Sprintf(`{"from":"ann","to":["ben"],"body":%q}`, m.Body)
	}
	require.Equal(t, s.accepted, logged)
}

func TestRefused(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnprocessableEntity)
	}))
	t.Cleanup(server.Close)
	file := write(t, `{"from":"ann","to":["ben"],"body":"x"}`)
	for _, test := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"nothing", nil, 2, "Commands:"},
		{"help", []string{"--help"}, 0, "Commands:"},
		{"unknown command", []string{"fly"}, 2, "Commands:"},
		{"help of a command", []string{"publish", "--help"}, 0, "-connections"},
		{"no file", []string{"publish"}, 2, "--file"},
		{"unknown flag", []string{"users", "--fly"}, 2, "not defined"},
		{"an argument", []string{"users", "x"}, 2, "unexpected argument"},
		{"both kinds", []string{"users", "--follows", "a", "--last-seen", "b"}, 2, "either"},
		{"bad time", []string{"users", "--follows", "a", "--now", "noon"}, 2, "--now"},
		{"no such file", []string{"celebrities", "--follows", "/nowhere"}, 1, "no such file"},
		{"no days", []string{"users", "--last-seen", write(t, "ann\tx\n")}, 1, ":1:"},
		{"no edge", []string{"users", "--follows", write(t, "ann\n")}, 1, "no tab"},
		{"refused message", []string{"publish", "--server", server.URL, "--file", file, "--log", filepath.Join(t.TempDir(), "log")}, 1, "422"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			code, _, stderr := run(t, test.args...)
			require.Equal(t, test.code, code)
			require.Contains(t, stderr, test.says)
		})
	}
}

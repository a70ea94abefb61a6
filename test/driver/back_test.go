package main_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// returning is a server to which users return. It breaks off every third request, and takes two requests to rebuild an inbox.
type returning struct {
	mu       sync.Mutex
	requests int
	asked    map[string]int // of each user
	edges    []string
}

func (s *returning) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.requests++; s.requests%3 == 0 {
		panic(http.ErrAbortHandler)
	}
	path := strings.Split(strings.TrimPrefix(r.URL.Path, "/v1/"), "/")
	switch {
	case path[0] == "following:batch":
		s.edges = append(s.edges, path[0]+" "+string(body))
		_, _ = fmt.Fprintf(w, `{"accepted":%d}`, bytes.Count(body, []byte("\n"))) // an error means that the client is gone
	case path[0] == "messages":
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, `{"id":"x","from":"ann"}`)
	case r.Method == http.MethodDelete:
		s.edges = append(s.edges, "end "+strings.Join(path[1:], " "))
		w.WriteHeader(http.StatusNoContent)
	case path[2] == "login":
		if s.asked[path[1]]++; s.asked[path[1]] < 2 {
			w.WriteHeader(http.StatusAccepted)
			_, _ = io.WriteString(w, `{"state":"rehydrating","was":"dormant"}`)
			return
		}
		_, _ = io.WriteString(w, `{"state":"active","was":"active","recovered":7}`)
	default:
		s.asked[path[1]]++
		_, _ = fmt.Fprintf(w, `{"messages":[{"id":"2"},{"id":"1"}],"next":null,"complete":%t}`, s.asked[path[1]] > 2)
	}
}

func serveReturning(t *testing.T) (s *returning, url string) {
	t.Helper()
	s = &returning{asked: make(map[string]int)}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return s, server.URL
}

// seenLine has the fields of a log of looks that the tests check.
type seenLine struct {
	User, By, Was string
	Recovered     *int64
	Tries         int
	Asked         time.Time
	Answered      time.Time
	Read          struct {
		IDs      []string
		Complete bool
		End      bool
	}
}

func readLines[T any](t *testing.T, path string) (all []T) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		var v T
		require.NoError(t, json.Unmarshal([]byte(line), &v))
		all = append(all, v)
	}
	return all
}

func TestLogin(t *testing.T) {
	t.Parallel()
	_, url := serveReturning(t)
	log := filepath.Join(t.TempDir(), "log")
	users := write(t, "ann\nben\t0.5\n"+`{"user":"cleo","last_viewed":"2026-01-01T00:00:00Z"}`+"\ndora\nann\n")
	code, stdout, stderr := run(t, "login", "--server", url, "--file", users, "--log", log, "--by", "either", "--connections", "1", "--json")
	require.Zero(t, code, stderr)
	var summary struct {
		Users, Provisional, Broken int
		Was                        map[string]int
		Recovered                  int64
	}
	require.NoError(t, json.Unmarshal([]byte(stdout), &summary))
	require.Equal(t, []int{4, 2}, []int{summary.Users, summary.Provisional}, "two opened their inbox")
	require.Equal(t, map[string]int{"dormant": 2}, summary.Was)
	require.EqualValues(t, 14, summary.Recovered)
	require.Positive(t, summary.Broken)
	looks := readLines[seenLine](t, log)
	require.Len(t, looks, 4)
	for i, l := range looks {
		byLogin := i%2 == 0
		require.Equal(t, []string{"ann", "ben", "cleo", "dora"}[i], l.User)
		require.Equal(t, map[bool]string{true: "login", false: "inbox"}[byLogin], l.By)
		require.Equal(t, []string{"2", "1"}, l.Read.IDs)
		require.Equal(t, byLogin, l.Read.Complete)
		require.True(t, l.Read.End)
		require.True(t, l.Asked.Before(l.Answered))
		require.Positive(t, l.Tries)
		require.Equal(t, byLogin, l.Recovered != nil)
	}
}

func TestPublishChanges(t *testing.T) {
	t.Parallel()
	s, url := serveReturning(t)
	log := filepath.Join(t.TempDir(), "log")
	script := write(t, `{"follow":[{"follower":"ben","followee":"ann"},{"follower":"bea","followee":"ann"}]}
{"from":"ann","audience":"followers","body":"hello"}
{"unfollow":[{"follower":"ben","followee":"ann"},{"follower":"bea","followee":"ann"}]}
`)
	code, stdout, stderr := run(t, "publish", "--server", url, "--file", script, "--log", log, "--apart", "0s")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "1 messages accepted and 2 changes of edges")
	require.Equal(t, []string{
		"following:batch " + `{"follower":"ben","followee":"ann"}` + "\n" + `{"follower":"bea","followee":"ann"}` + "\n",
		"end ben following ann", "end bea following ann",
	}, slices.Compact(s.edges))
	lines := readLines[struct {
		ID               string
		Follow, Unfollow []struct{ Follower, Followee string }

		Tries           int
		Asked, Answered time.Time
	}](t, log)
	require.Len(t, lines, 3)
	messages := 0
	for _, l := range lines {
		require.True(t, l.Asked.Before(l.Answered))
		require.Positive(t, l.Tries)
		if l.ID != "" {
			messages++
			continue
		}
		require.Equal(t, 2, len(l.Follow)+len(l.Unfollow))
	}
	require.Equal(t, 1, messages)

	both := write(t, `{"follow":[{"follower":"a","followee":"b"}],"unfollow":[{"follower":"a","followee":"b"}]}`)
	code, _, stderr = run(t, "publish", "--server", url, "--file", both, "--log", log)
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "write two")
}

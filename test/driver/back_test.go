package main_test

import (
	"bytes"
	"context"
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

	driver "github.com/fanmail/fanmail/test/driver"
)

// returning is a server to which users return. It breaks off every third request, and takes two requests to rebuild an inbox.
type returning struct {
	mu       sync.Mutex
	requests int
	asked    map[string]int // of each user
	edges    []string
	seen     int
	enough   func() // called at the fifth batch of twins
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
	case path[0] == "following:batch", path[0] == "subscriptions:batch":
		s.edges = append(s.edges, path[0]+" "+string(body))
		_, _ = fmt.Fprintf(w, `{"accepted":%d}`, bytes.Count(body, []byte("\n"))) // an error means that the client is gone
	case path[0] == "users:batch":
		if s.seen++; s.seen == 5 {
			s.enough()
		}
		_, _ = fmt.Fprintf(w, `{"accepted":%d}`, bytes.Count(body, []byte("\n")))
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
	s = &returning{asked: make(map[string]int), enough: func() {}}
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
{"subscribe":[{"user":"ben","topic":"news"},{"user":"bea","topic":"news/local"}]}
{"unsubscribe":[{"user":"bea","topic":"news/local"}]}
`)
	code, stdout, stderr := run(t, "publish", "--server", url, "--file", script, "--log", log, "--apart", "0s")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "1 messages accepted and 4 changes of edges")
	require.Equal(t, []string{
		"following:batch " + `{"follower":"ben","followee":"ann"}` + "\n" + `{"follower":"bea","followee":"ann"}` + "\n",
		"end ben following ann", "end bea following ann",
		"subscriptions:batch " + `{"user":"ben","topic":"news"}` + "\n" + `{"user":"bea","topic":"news/local"}` + "\n",
		"end bea topics news local",
	}, slices.Compact(s.edges))
	lines := readLines[struct {
		ID               string
		Follow, Unfollow []struct{ Follower, Followee string }

		Subscribe, Unsubscribe []struct{ User, Topic string }

		Tries           int
		Asked, Answered time.Time
	}](t, log)
	require.Len(t, lines, 5)
	messages := 0
	for _, l := range lines {
		require.True(t, l.Asked.Before(l.Answered))
		require.Positive(t, l.Tries)
		if l.ID != "" {
			messages++
			continue
		}
		require.Contains(t, []int{1, 2}, len(l.Follow)+len(l.Unfollow)+len(l.Subscribe)+len(l.Unsubscribe))
	}
	require.Equal(t, 1, messages)

	both := write(t, `{"follow":[{"follower":"a","followee":"b"}],"unfollow":[{"follower":"a","followee":"b"}]}`)
	code, _, stderr = run(t, "publish", "--server", url, "--file", both, "--log", log)
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "write two")
}

func TestRoam(t *testing.T) {
	t.Parallel()
	s, url := serveReturning(t)
	ctx, cancel := context.WithCancel(t.Context())
	s.enough = cancel
	log := filepath.Join(t.TempDir(), "log")
	var out, errs strings.Builder
	code := driver.Run(ctx, []string{
		"roam", "--server", url, "--pairs", write(t, "ann\tann-twin\nben\tben-twin\n"), "--log", log,
		"--gap", "1ms", "--keep", "10ms", "--seed", "7",
	}, &out, &errs, time.Now)
	require.Zero(t, code, errs.String())
	var summary struct{ Seed, Pairs, Logins, Openings, Pages, Kept int }
	require.NoError(t, json.Unmarshal([]byte(out.String()), &summary))
	require.Equal(t, []int{7, 2}, []int{summary.Seed, summary.Pairs})
	looks := readLines[seenLine](t, log)
	require.Len(t, looks, summary.Logins+summary.Openings)
	require.Positive(t, summary.Logins)
	require.Positive(t, summary.Openings)
	require.GreaterOrEqual(t, summary.Kept, 5)
	last := make(map[string]time.Time)
	for _, l := range looks {
		require.Contains(t, []string{"ann", "ben"}, l.User)
		require.False(t, l.Asked.Before(last[l.User]), "the looks of a user follow each other")
		last[l.User] = l.Answered
	}
}

func TestTwins(t *testing.T) {
	t.Parallel()
	twins := func(seed string) (script, pairs, follows, topics string) {
		dir := t.TempDir()
		code, _, stderr := run(t, "twins", "--mails", "../testdata/email-eu.messages.ndjson.gz",
			"--follows", "../testdata/wiki-vote.follows.tsv.gz", "--dir", dir, "--pairs", "40", "--first", "2000", "--topics", "20", "--seed", seed)
		require.Zero(t, code)
		require.Contains(t, stderr, "40 pairs")
		files := make([]string, 4)
		for i, name := range []string{"script.ndjson", "pairs.tsv", "follows.tsv", "topics.ndjson"} {
			text, err := os.ReadFile(filepath.Join(dir, name))
			require.NoError(t, err)
			files[i] = string(text)
		}
		return files[0], files[1], files[2], files[3]
	}
	script, pairs, follows, topics := twins("3")
	again, _, _, _ := twins("3")
	require.Equal(t, script, again)
	other, _, _, _ := twins("4")
	require.NotEqual(t, script, other)
	require.Len(t, lines(pairs), 40)

	following := make(map[string]bool)
	for _, edge := range lines(follows) {
		following[edge] = true
	}
	known := map[string]bool{"": true}
	for _, line := range lines(topics) {
		var topic struct{ Topic string }
		require.NoError(t, json.Unmarshal([]byte(line), &topic))
		above := topic.Topic[:max(0, strings.LastIndex(topic.Topic, "/"))]
		require.True(t, known[above], "%s comes after what is above it", topic.Topic)
		known[topic.Topic] = true
	}
	require.Len(t, known, 1+20)
	subscribed := make(map[string]bool)
	var named, followed, unfollowed, addressed, begun, ended int
	for _, line := range lines(script) {
		var step struct {
			To               []string
			Follow, Unfollow []struct{ Follower, Followee string }

			Topics                 []string
			Subscribe, Unsubscribe []struct{ User, Topic string }
		}
		require.NoError(t, json.Unmarshal([]byte(line), &step))
		for i := 0; i < len(step.To); i += 2 {
			require.Equal(t, step.To[i]+"-twin", step.To[i+1])
			named++
		}
		for kind, pairs := range map[bool][]struct{ Follower, Followee string }{true: step.Follow, false: step.Unfollow} {
			for i, p := range pairs {
				edge := p.Follower + "\t" + p.Followee
				require.Equal(t, !kind, following[edge], "follows only who does not, and the other way round")
				following[edge] = kind
				if i == 1 {
					require.Equal(t, pairs[0].Follower+"-twin", p.Follower)
					require.Equal(t, pairs[0].Followee, p.Followee)
				}
			}
		}
		followed, unfollowed = followed+len(step.Follow), unfollowed+len(step.Unfollow)
		for _, topic := range step.Topics {
			require.True(t, known[topic])
			addressed++
		}
		for begins, all := range map[bool][]struct{ User, Topic string }{true: step.Subscribe, false: step.Unsubscribe} {
			for _, s := range all {
				require.True(t, known[s.Topic])
				require.Equal(t, !begins, subscribed[s.User+" "+s.Topic], "begins only what has not begun, and the other way round")
				subscribed[s.User+" "+s.Topic] = begins
			}
			if len(all) > 0 {
				require.Equal(t, all[0].User+"-twin", all[1].User)
				require.Equal(t, all[0].Topic, all[1].Topic)
			}
		}
		begun, ended = begun+len(step.Subscribe), ended+len(step.Unsubscribe)
	}
	require.Positive(t, addressed)
	require.Positive(t, begun)
	require.Positive(t, ended)
	require.Positive(t, named)
	require.Positive(t, followed)
	require.Positive(t, unfollowed)
}

package main_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	check "github.com/fanmail/fanmail/test/check"
	"github.com/fanmail/fanmail/test/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// The messages were sent on 2026-01-01. Ben was seen on that day and has logged in since. Cleo also follows Ann, but was last seen
// so long ago that she is dormant. Dora was never seen.
const (
	users     = `{"user":"ben","last_viewed":"2026-01-01T00:00:00Z"}` + "\n" + `{"user":"cleo","last_viewed":"2025-11-01T00:00:00Z"}`
	follows   = "ben\tann\ncleo\tann\n"
	published = `{"id":"019b76da-a801-7000-8000-000000000001","from":"ann","audience":"followers","body":"one"}
{"id":"019b76da-a802-7000-8000-000000000002","from":"ann","to":["dora","ben","ben"],"audience":"followers","body":"two"}
{"id":"019b76da-a803-7000-8000-000000000003","from":"eve","to":["ben"],"body":"three"}
`
)

const logins = `{"user":"ben","by":"login","was":"dormant","recovered":0,"tries":1,"asked":"2026-07-01T00:00:00Z","answered":"2026-07-01T00:00:01Z",
"read":{"asked":"2026-07-01T00:00:01Z","answered":"2026-07-01T00:00:01Z","ids":["019b76da-a803-7000-8000-000000000003"],"complete":true}}`

type object = map[string]any

// fake is a server with data of a test.
type fake struct {
	statuses map[string]object
	inboxes  map[string][]object
	dormant  map[string]bool // the users whose pages are not complete
	sweeping atomic.Int64    // the number of pages of Ben that are not complete yet
	total    int             // added to the true total
	short    int             // the number of messages that each page lacks
}

func newFake() *fake {
	entry := func(n, from, body string) object {
		return object{
			"id": "019b76da-a80" + n + "-7000-8000-00000000000" + n, "from": from, "body": body,
			"sent": "2026-01-01T00:00:00.00" + n + "Z",
		}
	}
	status := func(e, more object, delivered, skipped int) object {
		s := object{"fanout": object{"state": "done", "recipients": delivered + skipped, "delivered": delivered, "skipped": skipped}}
		for _, fields := range []object{e, more} {
			maps.Copy(s, fields)
		}
		return s
	}
	one, two, three := entry("1", "ann", "one"), entry("2", "ann", "two"), entry("3", "eve", "three")
	return &fake{
		inboxes: map[string][]object{"ben": {three, two, one}, "cleo": {two, one}, "dora": {two}},
		dormant: map[string]bool{"cleo": true, "dora": true},
		statuses: map[string]object{
			one["id"].(string):   status(one, object{"audience": "followers"}, 1, 1),
			two["id"].(string):   status(two, object{"audience": "followers", "to": []string{"ben", "dora"}}, 1, 2),
			three["id"].(string): status(three, object{"to": []string{"ben"}}, 1, 0),
		},
	}
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if id, ok := strings.CutPrefix(r.URL.Path, "/v1/messages/"); ok {
		answer(w, f.statuses[id])
		return
	}
	user := strings.Split(r.URL.Path, "/")[3]
	size, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	from, _ := strconv.Atoi(r.URL.Query().Get("before")) // without the parameter, from is 0
	entries := f.inboxes[user]
	to := min(from+size-f.short, len(entries))
	page := object{"messages": entries[from:to], "next": nil, "total": len(entries) + f.total, "complete": !f.dormant[user]}
	if user == "ben" && f.sweeping.Add(-1) >= 0 {
		page["complete"] = false
	}
	if to < len(entries) {
		page["next"] = strconv.Itoa(to)
	}
	answer(w, page)
}

func answer(w http.ResponseWriter, v any) {
	if err := json.NewEncoder(w).Encode(v); err != nil {
		panic(err)
	}
}

type outcome struct {
	Delivered   int
	Skipped     int
	SaidSkipped int `json:"said_skipped"`
	Wrong       int
	Findings    map[string]int
	Examples    map[string][]string
	Perhaps     int
	Either      int
	Looks       object
	Gaps        object
	Twins       object
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		tamper   func(f *fake)
		findings map[string]int // with pages of 2
	}{
		{"nothing wrong", func(*fake) {}, map[string]int{}},
		{"missing", func(f *fake) { f.inboxes["ben"] = f.inboxes["ben"][1:] }, map[string]int{"missing": 1, "wrong total": 1}},
		{"extra", func(f *fake) { f.inboxes["cleo"] = f.inboxes["ben"] }, map[string]int{"extra": 1}},
		{"complete", func(f *fake) { f.dormant["cleo"] = false }, map[string]int{"wrong completeness": 1}},
		{"not complete", func(f *fake) { f.dormant["ben"] = true }, map[string]int{"wrong completeness": 1}},
		{"double", func(f *fake) {
			f.inboxes["ben"] = slices.Insert(f.inboxes["ben"], 1, f.inboxes["ben"][0])
		}, map[string]int{"double": 1, "wrong total": 2}},
		{"out of order", func(f *fake) { slices.Reverse(f.inboxes["ben"][:2]) }, map[string]int{"out of order": 1}},
		{"wrong body", func(f *fake) {
			changed := object{"body": "four"}
			for _, key := range []string{"id", "from", "sent"} {
				changed[key] = f.inboxes["ben"][0][key]
			}
			f.inboxes["ben"][0] = changed
		}, map[string]int{"wrong content": 1}},
		{"wrong total", func(f *fake) { f.total = 1 }, map[string]int{"wrong total": 2}},
		{"short pages", func(f *fake) { f.short = 1 }, map[string]int{"wrong page": 3}},
		{"not done", func(f *fake) {
			for _, s := range f.statuses {
				s["fanout"].(object)["state"] = "running"
			}
		}, map[string]int{"not done": 3}},
		{"wrong counts", func(f *fake) {
			for _, s := range f.statuses {
				s["fanout"].(object)["skipped"] = 7
			}
		}, map[string]int{"wrong counts": 3}},
		{"wrong message", func(f *fake) {
			for _, s := range f.statuses {
				s["audience"] = "everybody"
			}
		}, map[string]int{"wrong message": 3}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := newFake()
			test.tamper(f)
			code, found := runCheck(t, f, published)
			require.Equal(t, test.findings, found.Findings)
			wrong := 0
			for _, n := range test.findings {
				wrong += n
			}
			require.Equal(t, wrong, found.Wrong)
			require.Equal(t, min(wrong, 1), code)
			require.Equal(t, []int{3, 3}, []int{found.Delivered, found.Skipped})
		})
	}
}

// A sweep of a user who has returned is under way. The checker waits for it, if it is to wait at all.
func TestCheckAwaitsSweeps(t *testing.T) {
	t.Parallel()
	for wait, findings := range map[string]map[string]int{"0s": {"wrong completeness": 1}, "10m": {}} {
		t.Run(wait, func(t *testing.T) {
			t.Parallel()
			f := newFake()
			f.sweeping.Store(2)
			_, found := runCheck(t, f, published, "--wait", wait)
			require.Equal(t, findings, found.Findings)
		})
	}
}

func TestCheckStatistics(t *testing.T) {
	t.Parallel()
	_, found := runCheck(t, newFake(), published)
	require.Equal(t, 3, found.SaidSkipped)
}

func TestCheckIDs(t *testing.T) {
	t.Parallel()
	first, _, _ := strings.Cut(published, "\n")
	_, found := runCheck(t, newFake(), published+first+"\n"+`{"id":"7","from":"ann","to":["ben"],"body":"x"}`)
	require.Equal(t, map[string]int{"id of several messages": 1, "id is no UUIDv7": 1}, found.Findings)
}

func TestCheckFails(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	dir := t.TempDir()
	good, bad := write(t, dir, "good", published), write(t, dir, "bad", "{\n")
	usersFile := write(t, dir, "users", users)
	for _, test := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"help", []string{"--help"}, 0, "Exit codes"},
		{"nothing to check", nil, 2, "--published"},
		{"an argument", []string{"x"}, 2, `unexpected argument "x"`},
		{"page size", []string{"--published", good, "--users", usersFile, "--page-sizes", "50,"}, 2, "--page-sizes"},
		{"no such file", []string{"--published", good + "x", "--users", usersFile}, 1, "no such file"},
		{"bad file", []string{"--published", bad, "--users", usersFile}, 1, bad + ":1:"},
		{"server fails", []string{"--published", good, "--users", usersFile, "--server", server.URL}, 1, "404"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var stdout, stderr strings.Builder
			require.Equal(t, test.code, check.Run(t.Context(), test.args, &stdout, &stderr))
			require.Contains(t, stderr.String(), test.says)
			require.Empty(t, stdout.String())
		})
	}
}

func runCheck(t *testing.T, f *fake, published string, more ...string) (int, outcome) {
	t.Helper()
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	dir := t.TempDir()
	args := []string{
		"--server", server.URL, "--page-sizes", "2", "--json", "--published", write(t, dir, "published", published),
		"--follows", write(t, dir, "follows", follows), "--users", write(t, dir, "users", users),
		"--logins", write(t, dir, "logins", strings.ReplaceAll(logins, "\n", "")),
	}
	args = append(args, more...)
	var stdout, stderr strings.Builder
	code := check.Run(t.Context(), args, &stdout, &stderr)
	var found outcome
	require.NoError(t, json.Unmarshal([]byte(stdout.String()), &found), fmt.Sprint(code, stderr.String()))
	return code, found
}

func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

package main_test

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	one   = "019b76da-a801-7000-8000-000000000001"
	two   = "019b76da-a802-7000-8000-000000000002"
	three = "019b76da-a803-7000-8000-000000000003"
)

// cleosLogin is the log of the login of Cleo, who was dormant. She returned just after the server had accepted the second message.
func cleosLogin() object {
	return object{
		"user": "cleo", "by": "login", "was": "dormant", "recovered": 2, "tries": 1,
		"asked": "2026-01-01T00:00:03Z", "answered": "2026-01-01T00:00:04Z",
		"read": object{
			"asked": "2026-01-01T00:00:04Z", "answered": "2026-01-01T00:00:05Z",
			"ids": []string{two, one}, "complete": true, "end": true,
		},
	}
}

func TestLooks(t *testing.T) {
	t.Parallel()
	page := func(key string, value any) func(object) {
		return func(l object) { l["read"].(object)[key] = value }
	}
	for _, test := range []struct {
		name     string
		tamper   func(object)
		findings map[string]int
	}{
		{"nothing wrong", func(object) {}, map[string]int{}},
		{"recovered too little", func(l object) { l["recovered"] = 1 }, map[string]int{"look: wrong recovered": 1}},
		{"recovered too much", func(l object) { l["recovered"] = 3 }, map[string]int{"look: wrong recovered": 1}},
		{"recovered nothing", func(l object) { delete(l, "recovered") }, map[string]int{"look: wrong recovered": 1}},
		{"was new", func(l object) { l["was"] = "new" }, map[string]int{"look: wrong was": 1}},
		{"it took several tries", func(l object) { l["was"], l["tries"] = "active", 2 }, map[string]int{}},
		{"missing", page("ids", []string{two}), map[string]int{"look: missing": 1}},
		{"further down", func(l object) {
			page("ids", []string{two})(l)
			page("end", false)(l)
		}, map[string]int{}},
		{"missing further up", func(l object) {
			page("ids", []string{one})(l)
			page("end", false)(l)
		}, map[string]int{"look: missing": 1}},
		{"accepted too late", func(l object) {
			page("ids", []string{one})(l)
			l["asked"] = "2026-01-01T00:00:01Z"
		}, map[string]int{}},
		{"accepted too late for a page that is not complete", func(l object) {
			page("ids", []string{one})(l)
			page("complete", false)(l)
			page("asked", "2026-01-01T00:00:01Z")(l)
		}, map[string]int{}},
		{"missing on a page that is not complete", func(l object) {
			page("ids", []string{one})(l)
			page("complete", false)(l)
		}, map[string]int{"look: missing": 1}},
		{"out of order", page("ids", []string{one, two}), map[string]int{"look: out of order": 1}},
		{"double", page("ids", []string{two, two, one}), map[string]int{"look: double": 1}},
		{"extra", page("ids", []string{three, two, one}), map[string]int{"look: extra": 1}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := newFake()
			delete(f.dormant, "cleo")
			l := cleosLogin()
			test.tamper(l)
			_, found := runCheck(t, f, accepted(), "--logins", withBen(t, l))
			require.Equal(t, test.findings, found.Findings, found.Examples)
			require.Equal(t, 2, found.Either, "whether she came back before the fan-out is not known")
		})
	}
}

// accepted returns the published messages with the times at which they were accepted.
func accepted() string {
	return strings.ReplaceAll(published, `"body":`, `"answered":"2026-01-01T00:00:02Z","body":`)
}

// withBen returns a file with Ben's login and other looks.
func withBen(t *testing.T, others ...object) string {
	t.Helper()
	var text strings.Builder
	text.WriteString(strings.ReplaceAll(logins, "\n", "") + "\n")
	for _, o := range others {
		require.NoError(t, json.NewEncoder(&text).Encode(o))
	}
	return write(t, t.TempDir(), "logins", text.String())
}

// TestUnlogged lets Cleo return before the log begins. Then the server may show her every message that is for her.
func TestUnlogged(t *testing.T) {
	t.Parallel()
	f := newFake()
	delete(f.dormant, "cleo")
	l := cleosLogin()
	l["was"], l["recovered"] = "active", 0
	l["read"].(object)["ids"] = []string{two}
	args := []string{"--logins", withBen(t, l)}
	_, found := runCheck(t, f, accepted(), args...)
	require.Equal(t, map[string]int{"look: wrong was": 1, "look: wrong recovered": 1, "look: missing": 1}, found.Findings)
	_, found = runCheck(t, f, accepted(), append(args, "--unlogged", write(t, t.TempDir(), "unlogged", "cleo\n"))...)
	require.Empty(t, found.Findings, found.Examples)
}

func TestGaps(t *testing.T) {
	t.Parallel()
	f := newFake()
	delete(f.dormant, "cleo")
	l := cleosLogin()
	args := []string{"--logins", withBen(t, l), "--settled-after", "1s"}
	_, found := runCheck(t, f, accepted(), append(args, "--rehydrate-limit", "1")...)
	require.Equal(t, object{"gaps": 1.0, "messages": 1.0, "paged": 1.0, "pages": 1.0}, found.Gaps)
	_, found = runCheck(t, f, accepted(), append(args, "--rehydrate-limit", "2")...)
	require.Equal(t, object{"gaps": 0.0, "messages": 0.0, "paged": 0.0, "pages": 0.0}, found.Gaps)
	_, found = runCheck(t, f, accepted(), "--logins", withBen(t, l), "--rehydrate-limit", "1") // the message may still be in flight
	require.Zero(t, found.Gaps["gaps"])
}

func TestEdgesThatChange(t *testing.T) {
	t.Parallel()
	change := func(kind, asked, answered string) string {
		return `{"` + kind + `":[{"follower":"ben","followee":"ann"}],"asked":"2026-01-01T00:00:00.` + asked +
			`Z","answered":"2026-01-01T00:00:00.` + answered + `Z"}` + "\n"
	}
	for _, test := range []struct {
		name, changes string
		findings      map[string]int
		perhaps       int
	}{
		{"later", change("unfollow", "010", "020"), map[string]int{}, 0},
		{"about then", change("unfollow", "000", "020"), map[string]int{}, 1},
		{"before", "", map[string]int{}, 0},
		{"again", change("follow", "000", "020"), map[string]int{}, 0},
		{"back too late", change("unfollow", "000", "000") + change("follow", "010", "020"), map[string]int{"extra": 1, "wrong total": 2, "wrong counts": 1}, 0},
		{"back about then", change("unfollow", "000", "000") + change("follow", "000", "020"), map[string]int{}, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, found := runCheck(t, newFake(), published+test.changes)
			require.Equal(t, test.findings, found.Findings, found.Examples)
			require.Equal(t, test.perhaps, found.Perhaps)
		})
	}
}

func TestTwins(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		tamper   func(f *fake)
		findings map[string]int
		messages float64
	}{
		{"equal", func(*fake) {}, map[string]int{}, 3},
		{"one has more", func(f *fake) { f.inboxes["ben"] = f.inboxes["ben"][:2] }, map[string]int{"twins differ": 1, "missing": 1, "wrong total": 1}, 2},
		{"another order", func(f *fake) {
			f.inboxes["bea"] = []object{f.inboxes["ben"][1], f.inboxes["ben"][0], f.inboxes["ben"][2]}
		}, map[string]int{"twins differ": 1, "out of order": 1}, 3},
		{"other contents", func(f *fake) {
			changed := maps.Clone(f.inboxes["ben"][0])
			changed["body"] = "four"
			f.inboxes["bea"] = append([]object{changed}, f.inboxes["ben"][1:]...)
		}, map[string]int{"twins differ": 1, "wrong content": 1}, 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := newFake()
			f.inboxes["bea"] = f.inboxes["ben"]
			for id, counts := range map[string][2]int{one: {2, 1}, two: {2, 2}, three: {2, 0}} {
				fanout := f.statuses[id]["fanout"].(object)
				fanout["delivered"], fanout["skipped"], fanout["recipients"] = counts[0], counts[1], counts[0]+counts[1]
			}
			f.statuses[one]["to"], f.statuses[two]["to"], f.statuses[three]["to"] = []string{"bea"}, []string{"bea", "ben", "dora"}, []string{"bea", "ben"}
			test.tamper(f)
			text := strings.NewReplacer(`"to":["dora","ben"`, `"to":["dora","bea","ben"`, `"to":["ben"]`, `"to":["bea","ben"]`,
				`"audience":"followers","body":"one"`, `"audience":"followers","to":["bea"],"body":"one"`).Replace(published)
			_, found := runCheck(t, f, text, "--pairs", write(t, t.TempDir(), "pairs", "ben\tbea\n"))
			require.Equal(t, test.findings, found.Findings, found.Examples)
			require.Equal(t, object{"pairs": 1.0, "messages": test.messages, "tolerated": 0.0}, found.Twins)
		})
	}
}

// TestLookWhileAClockIsWrong lets Cleo, who is dormant, log in while the server's clock is so far behind that she counts as active.
func TestLookWhileAClockIsWrong(t *testing.T) {
	t.Parallel()
	f := newFake()
	delete(f.dormant, "cleo")
	l := cleosLogin()
	l["was"], l["recovered"] = "active", 0
	args := []string{"--logins", withBen(t, l)}
	_, found := runCheck(t, f, accepted(), args...)
	require.Equal(t, map[string]int{"look: wrong was": 1, "look: wrong recovered": 1}, found.Findings)
	const behind = `{"since":"2026-01-01T00:00:00Z","until":"2026-01-02T00:00:00Z","offset":"-2400h"}`
	_, found = runCheck(t, f, accepted(), append(args, "--clocks", write(t, t.TempDir(), "clocks", behind))...)
	require.Empty(t, found.Findings, found.Examples)
}

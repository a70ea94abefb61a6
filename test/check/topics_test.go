package main_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTopics has Eve publish to a topic instead of to Ben.
func TestTopics(t *testing.T) {
	t.Parallel()
	change := func(kind, topic, at string) string {
		return `{"` + kind + `":[{"user":"ben","topic":"` + topic + `"}],"asked":"2026-01-01T00:00:00.` + at +
			`Z","answered":"2026-01-01T00:00:00.` + at + `Z"}` + "\n"
	}
	extra := map[string]int{"extra": 1, "look: extra": 1, "wrong total": 2, "wrong counts": 1}
	for _, test := range []struct {
		name, changes string
		findings      map[string]int
		perhaps       int
	}{
		{"subscribed", change("subscribe", "news/local/towns", "000"), map[string]int{}, 0},
		{"subscribed above", change("subscribe", "news", "000"), map[string]int{}, 0},
		{"subscribed twice", change("subscribe", "news", "000") + change("subscribe", "news/local", "001"), map[string]int{}, 0},
		{"subscribed below", change("subscribe", "news/local/towns/x", "000"), extra, 0},
		{"a name that begins alike", change("subscribe", "new", "000") + change("subscribe", "news/loc", "001"), extra, 0},
		{"too late", change("subscribe", "news", "010"), extra, 0},
		{"no more", change("subscribe", "news", "000") + change("unsubscribe", "news", "001"), extra, 0},
		{"no more to one of two", change("subscribe", "news", "000") + change("subscribe", "news/local", "000") + change("unsubscribe", "news", "001"), map[string]int{}, 0},
		{"about then", change("subscribe", "news", "003"), map[string]int{}, 1},
		{"about then and for certain", change("subscribe", "news/local", "000") + change("subscribe", "news", "003"), map[string]int{}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := newFake()
			delete(f.statuses[three], "to")
			f.statuses[three]["topics"] = []string{"news/local/towns", "other"}
			text := strings.Replace(published, `"to":["ben"]`, `"topics":["other","news/local/towns","other"]`, 1)
			_, found := runCheck(t, f, text+test.changes)
			require.Equal(t, test.findings, found.Findings, found.Examples)
			require.Equal(t, test.perhaps, found.Perhaps)
		})
	}
}

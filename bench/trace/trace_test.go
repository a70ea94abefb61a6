package trace_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fanmail/fanmail/bench/trace"
	"github.com/fanmail/fanmail/pkg/message"
)

var begin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(day float64) time.Time { return begin.Add(time.Duration(day * 24 * float64(time.Hour))) }

func view(day float64) trace.Event { return trace.Event{At: at(day), View: true} }

func arrival(day float64) trace.Event { return trace.Event{At: at(day)} }

func traceOf(inboxes map[message.UserID][]trace.Event) *trace.Trace {
	t := trace.New()
	for user, events := range inboxes {
		for _, e := range events {
			t.Add(user, e)
		}
	}
	t.Sort()
	return t
}

func TestLines(t *testing.T) {
	t.Parallel()
	got := trace.New()
	for _, line := range []string{
		`{"publish":"ann","to":["cy","ben","cy"],"time":"2026-01-03T00:00:00Z"}`,
		`{"view":"ben","time":"2026-01-03T01:00:00+01:00"}`,
		`{"view":"ben","time":"2026-01-02T00:00:00Z"}`,
	} {
		require.NoError(t, got.AddLine([]byte(line)))
	}
	got.Sort()
	want := traceOf(map[message.UserID][]trace.Event{"ben": {view(1), arrival(2), view(2)}, "cy": {arrival(2)}})
	for user, events := range want.Inboxes {
		require.Len(t, got.Inboxes[user], len(events))
		for i, e := range events {
			require.Equal(t, e.View, got.Inboxes[user][i].View)
			require.True(t, e.At.Equal(got.Inboxes[user][i].At))
		}
	}
	require.Equal(t, 2, got.Views)
	require.Equal(t, 2, got.Copies)
	require.True(t, got.Middle().Equal(at(1.5)))
}

func TestBadLines(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		`{`: "is not a view or a message: unexpected EOF",
		`{"view":"ben","view":"ann","time":"2026-01-02T00:00:00Z"}`:                `the field "view" is there twice: leave one out`,
		`{"view":"ben","time":"2026-01-02T00:00:00Z"} {}`:                          "has more than one JSON object: expected one per line",
		`{"view":"ben","at":"2026-01-02T00:00:00Z"}`:                               `is not a view or a message: json: unknown field "at"`,
		`{"time":"2026-01-02T00:00:00Z"}`:                                          `has to have either "view" or "publish"`,
		`{"view":"ben","publish":"ann","to":["cy"],"time":"2026-01-02T00:00:00Z"}`: `has to have either "view" or "publish"`,
		`{"view":"ben","to":["cy"],"time":"2026-01-02T00:00:00Z"}`:                 `"to" belongs to "publish"`,
		`{"publish":"ann","to":[],"time":"2026-01-02T00:00:00Z"}`:                  `"publish" needs users in "to"`,
		`{"view":"ben"}`: `"time" is missing`,
	} {
		got := trace.New()
		require.EqualError(t, got.AddLine([]byte(line)), want, line)
		require.Equal(t, trace.New(), got, line)
	}
	got := trace.New()
	require.ErrorContains(t, got.AddLine([]byte(`{"publish":"ann","to":["ben",""],"time":"2026-01-02T00:00:00Z"}`)), "user")
	require.Equal(t, trace.New(), got)
}

func TestReplay(t *testing.T) {
	t.Parallel()
	one := traceOf(map[message.UserID][]trace.Event{
		"never":   {arrival(1), arrival(2)},
		"present": {view(0), arrival(1), view(1.5), arrival(2), view(3)},
		// Who has become dormant stays it, although the next message comes soon after.
		"returns": {view(0), arrival(1), arrival(4), arrival(4.5), view(5), arrival(6)},
	})
	var prices trace.Prices
	require.Equal(t, trace.Result{Copies: 4, Skipped: 4, Rebuilds: 1, Rebuilt: 2, Views: 5}, one.Replay(trace.Days(2), prices, at(0)))
	require.Equal(t, trace.Result{Copies: 6, Skipped: 2, Views: 5}, one.Replay(trace.Days(30), prices, at(0)))
	require.Equal(t, trace.Result{Copies: 1, Skipped: 1, Rebuilds: 1, Rebuilt: 2, Views: 1}, one.Replay(trace.Days(2), prices, at(4.2)),
		"what came before that time is in the rebuild, and nothing else of it counts")
	prices.Limit = 1
	require.Equal(t, trace.Result{Copies: 4, Skipped: 4, Rebuilds: 1, Rebuilt: 1, Views: 5}, one.Replay(trace.Days(2), prices, at(0)))
}

func TestCosts(t *testing.T) {
	t.Parallel()
	prices := trace.Prices{
		Copy: 1, Skipping: 0.5, Rebuild: 10, RebuildMessage: 2, Page: time.Millisecond, FirstPage: time.Second, Bytes: 100,
	}
	r := trace.Result{Copies: 4, Skipped: 6, Rebuilds: 2, Rebuilt: 3, Views: 5}
	require.InDelta(t, 4+3+20+6, prices.Cost(r), 1e-9)
	require.Equal(t, 2*time.Second+3*time.Millisecond, prices.Waited(r))
	require.InDelta(t, 700, prices.Written(r), 1e-9)
}

// TestBest compares the optimum with every choice of how many messages are copied after each view.
func TestBest(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		price := rapid.Float64Range(0, 10)
		prices := trace.Prices{Copy: price.Draw(t, "copy"), Rebuild: price.Draw(t, "rebuild"), RebuildMessage: price.Draw(t, "message")}
		prices.Skipping = rapid.Float64Range(0, prices.Copy).Draw(t, "skipping")
		prices.Limit = rapid.IntRange(0, 6).Draw(t, "limit")
		events := []trace.Event{view(0)}
		least, waiting := 0.0, 0
		for i, isView := range rapid.SliceOfN(rapid.Bool(), 0, 20).Draw(t, "events") {
			events = append(events, trace.Event{At: at(float64(i + 1)), View: isView})
			if !isView {
				waiting++
				continue
			}
			cheapest := prices.Copy * float64(waiting)
			for copied := range waiting {
				rest := float64(waiting - copied)
				rebuilt := rest
				if prices.Limit > 0 {
					rebuilt = min(rest, float64(prices.Limit))
				}
				cheapest = min(cheapest, prices.Copy*float64(copied)+prices.Rebuild+prices.Skipping*rest+prices.RebuildMessage*rebuilt)
			}
			least, waiting = least+cheapest, 0
		}
		least += prices.Skipping * float64(waiting)
		one := traceOf(map[message.UserID][]trace.Event{"ben": events})
		require.InDelta(t, least, prices.Cost(one.Best(prices, at(0))), 1e-6)
		for _, days := range []int{1, 2, 5} {
			require.GreaterOrEqual(t, prices.Cost(one.Replay(trace.Days(days), prices, at(0)))+1e-6, least)
		}
	})
}

// TestHabits gives half of the users a daily view, and lets the others leave after a month and never come back.
func TestHabits(t *testing.T) {
	t.Parallel()
	all := make(map[message.UserID][]trace.Event)
	for n := range 40 {
		user := message.UserID("stays-" + string(rune('a'+n/26)) + string(rune('a'+n%26)))
		left := n%2 == 1
		if left {
			user = "left" + user
		}
		for day := range 200 {
			if !left || day < 30 {
				all[user] = append(all[user], view(float64(day)))
			}
			all[user] = append(all[user], arrival(float64(day)+0.5))
		}
	}
	both := traceOf(all)
	prices := trace.Prices{Copy: 1, Rebuild: 50, RebuildMessage: 1}
	got := both.Replay(trace.Learn(both, at(100), prices), prices, at(100))
	require.Equal(t, trace.Result{Copies: 20 * 100, Skipped: 20 * 100, Views: 20 * 100}, got)

	prices.Rebuild = 1e6
	got = both.Replay(trace.Learn(both, at(20), prices), prices, at(20))
	require.Equal(t, trace.Result{Copies: 40 * 180, Views: 20*180 + 20*10}, got, "all are expected back while none of them has left")
}

func TestCheapest(t *testing.T) {
	t.Parallel()
	thresholds := []trace.Threshold{trace.Days(1), trace.Days(3), trace.Days(30)}
	one := traceOf(map[message.UserID][]trace.Event{
		"weekly": {view(0), arrival(2), view(7), arrival(9), view(14), arrival(16), arrival(100)},
	})
	require.Equal(t, trace.Days(3), one.Cheapest(thresholds, at(15), trace.Prices{Copy: 1, Rebuild: 10, RebuildMessage: 1}))
	require.Equal(t, trace.Days(1), one.Cheapest(thresholds, at(15), trace.Prices{Copy: 10, Rebuild: 1, RebuildMessage: 1}))
}

func TestSynthetic(t *testing.T) {
	t.Parallel()
	p := trace.DefaultPopulation()
	p.Users = 200
	one := trace.Synthetic(p)
	require.Equal(t, one, trace.Synthetic(p), "the same parameters make the same trace")
	p.Seed++
	require.NotEqual(t, one, trace.Synthetic(p))
	require.Len(t, one.Inboxes, 200)
	require.InEpsilon(t, float64(200*p.Days)*p.Messages, float64(one.Copies), 0.5)
	require.InEpsilon(t, float64(200*p.Days)*p.Views*p.Return/(p.Leave+p.Return), float64(one.Views), 0.5)
}

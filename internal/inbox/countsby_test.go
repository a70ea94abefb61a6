package inbox_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/inbox"
	"github.com/fanmail/fanmail/internal/storetest"
	"github.com/fanmail/fanmail/pkg/attribute"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

// whole returns the messages of the inbox that a count by values should count, the newest first: those of gaps, but not those that are still
// going to be appended.
func (f filtering) whole() (ns []int) {
	for n := 419; n >= 0; n-- {
		if f.shows(n) && (!f.rebuilding || n >= 200) {
			ns = append(ns, n)
		}
	}
	return ns
}

// unread reports whether the nth message is unread.
func (f filtering) unread(n int) bool { return n > 150 || f.rebuilding }

// TestCountBy compares the counts with those of the whole inbox, by a naive count. Within a smaller budget, it counts the newest.
func TestCountBy(t *testing.T) {
	t.Parallel()
	valueOf := map[string]func(n int) any{
		"from":       func(n int) any { return fmt.Sprintf("author%d", n%3) },
		"attr:total": func(n int) any { return float64(n % 10) },
		"attr:kind": func(n int) any {
			if n%7 == 0 {
				return nil
			}
			return fmt.Sprintf("k%d", n%4)
		},
	}
	for _, f := range []filtering{
		{buckets: 2, messages: 2},
		{buckets: 4, messages: 30},
		{buckets: 200, messages: 2000},
		{buckets: 3, messages: 20, rebuilding: true},
		{buckets: 200, messages: 2000, rebuilding: true},
		{buckets: 3, messages: 20, purged: true},
		{buckets: 200, messages: 2000, purged: true},
	} {
		w := f.world(t)
		all := f.whole()
		before := w.State(t.Context(), t, "ann")
		for by, valueOf := range valueOf {
			got, err := w.CountBy(t.Context(), "ann", by)
			require.NoError(t, err)
			enough := f.buckets == 200
			require.Equal(t, enough && !f.rebuilding, got.Complete, "%+v", f)
			require.LessOrEqual(t, got.Counted, len(all))
			if enough {
				require.Len(t, all, got.Counted, "%+v", f)
			} else {
				require.LessOrEqual(t, got.Messages, f.messages)
			}
			require.Positive(t, got.Counted, "%+v", f)
			require.Equal(t, naive(all[:got.Counted], valueOf, f.unread), got.Counts, "%+v by %s", f, by)
			if enough && !f.rebuilding {
				w.requireSums(t, got)
			}
		}
		require.Equal(t, before, w.State(t.Context(), t, "ann"), "a count writes nothing")
	}
}

// naive counts messages by their values.
func naive(ns []int, valueOf func(n int) any, unread func(n int) bool) (counts []inbox.ValueCount) {
	for _, n := range ns {
		i := slices.IndexFunc(counts, func(c inbox.ValueCount) bool { return c.Value == valueOf(n) })
		if i < 0 {
			i, counts = len(counts), append(counts, inbox.ValueCount{Value: valueOf(n)})
		}
		if counts[i].Total++; unread(n) {
			counts[i].Unread++
		}
	}
	slices.SortFunc(counts, func(x, y inbox.ValueCount) int {
		switch {
		case x.Total != y.Total:
			return cmp.Compare(y.Total, x.Total)
		case x.Value == nil:
			return 1
		case y.Value == nil:
			return -1
		}
		return cmp.Compare(fmt.Sprint(x.Value), fmt.Sprint(y.Value))
	})
	return counts
}

// requireSums requires that the counts of a whole inbox add up to those of its page.
func (w *world) requireSums(t *testing.T, values inbox.Values) {
	t.Helper()
	page, err := w.Read(t.Context(), "ann", inbox.Request{Limit: 1, Peek: true})
	require.NoError(t, err)
	var total, unread int64
	for _, c := range values.Counts {
		total, unread = total+c.Total, unread+c.Unread
	}
	require.Equal(t, []int64{page.Total, page.Unread}, []int64{total, unread})
	require.EqualValues(t, total, values.Counted)
}

// TestCountByWhateverHappened draws inboxes that lose, gain and read messages, with gaps and late messages. The counts by author add up to those
// of the page, and agree with filtered pages.
func TestCountByWhateverHappened(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		t.Helper()
		for seed := range uint64(6) {
			random := rand.New(rand.NewPCG(seed, 5))
			user := message.UserID(fmt.Sprintf("user-%d", seed))
			require.NoError(t, storetest.See(t.Context(), w.Users, w.Clock.Now(), rig.DormantAfter, user))
			for range 4 {
				w.change(t, random, user)
				values, err := w.CountBy(t.Context(), user, "from")
				require.NoError(t, err)
				page, err := w.Read(t.Context(), user, inbox.Request{Limit: 1, Peek: true})
				require.NoError(t, err)
				require.True(t, values.Complete)
				require.EqualValues(t, page.Total, values.Counted)
				var unread int64
				for _, c := range values.Counts {
					unread += c.Unread
					from := message.UserID(c.Value.(string)) //nolint:forcetypeassert // an author is a string
					for _, only := range []bool{false, true} {
						filter := inbox.Filter{From: from, Unread: only}
						page, err := w.Read(t.Context(), user, inbox.Request{Limit: 1000, Peek: true, Filter: filter})
						require.NoError(t, err)
						require.Len(t, page.Entries, int(map[bool]int64{false: c.Total, true: c.Unread}[only]), "%+v", filter)
					}
				}
				require.Equal(t, page.Unread, unread)
			}
		}
	})
}

// TestCountByCountsTheNewest counts an inbox of more than a thousand messages: by ids, whatever the order in which they came.
func TestCountByCountsTheNewest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Clock.Advance(time.Minute)
	require.NoError(t, storetest.See(t.Context(), w.Users, w.Clock.Now(), rig.DormantAfter, "ann", "exact"))
	deliver := func(user message.UserID, from message.UserID, first, last, step int) {
		t.Helper()
		var entries []bucket.Entry
		for n := first; n < last; n += step {
			entries = append(entries, bucket.Entry{ID: id(n), From: from, Body: "x"})
		}
		results, err := w.Appender.Append(t.Context(), []bucket.Append{{Owner: user, Entries: entries}})
		require.NoError(t, err)
		require.Equal(t, len(entries), results[0].New)
	}
	deliver("ann", "even", 0, 2020, 2) // 1,010
	deliver("ann", "late", 1, 100, 2)  // 50
	for n := 2000; n < 2010; n += 2 {
		require.NoError(t, w.Delete(t.Context(), "ann", id(n)))
	}
	require.NoError(t, w.MarkRead(t.Context(), "ann", id(1000)))
	got, err := w.CountBy(t.Context(), "ann", "from")
	require.NoError(t, err)
	// 955 of the even ones from 100 on are left. Of the 45 below, 23 are odd.
	require.Equal(t, []inbox.ValueCount{{Value: "even", Total: 977, Unread: 504}, {Value: "late", Total: 23}}, got.Counts)
	require.Equal(t, 1000, got.Counted)
	require.False(t, got.Complete)

	deliver("exact", "even", 0, 2000, 2)
	got, err = w.CountBy(t.Context(), "exact", "from")
	require.NoError(t, err)
	require.True(t, got.Complete, "these are all")
	require.Equal(t, 1000, got.Counted)
	deliver("exact", "even", 2000, 2001, 1)
	got, err = w.CountBy(t.Context(), "exact", "from")
	require.NoError(t, err)
	require.False(t, got.Complete, "there is one more")
}

// TestCountByTypes counts values of each type, and lists of strings by each string once.
func TestCountByTypes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	require.NoError(t, storetest.See(t.Context(), w.Users, w.Clock.Now(), rig.DormantAfter, "ann", "many"))
	declared := attribute.NewSet(4, []attribute.Declaration{
		{Name: "n", Type: attribute.Number, Number: 1},
		{Name: "b", Type: attribute.Bool, Number: 2},
		{Name: "t", Type: attribute.Time, Number: 3},
		{Name: "s", Type: attribute.Strings, Number: 4},
	})
	w.Service = inbox.New(inbox.Stores{Buckets: w.Inbox, Users: w.Users, Appender: w.Appender}, w.rehydrator, inbox.Options{
		Rules: rig.Rules, Now: w.Clock.Now, Attributes: func() attribute.Set { return declared },
	})
	var entries []bucket.Entry
	for n, attrs := range []string{
		`{"n":10,"b":true,"t":"2026-01-31T08:00:00Z","s":["a","b","a"]}`, `{"n":9.5,"b":false,"t":"2026-01-31T09:00:00+01:00","s":["b"]}`,
		`{"n":10.0,"b":true,"t":"2026-01-30T08:00:00Z","s":[]}`, `{"n":"ten","b":1,"t":"now","s":"a"}`, ``,
	} {
		entries = append(entries, bucket.Entry{ID: id(n), From: "ben", Attrs: json.RawMessage(attrs)})
	}
	_, err := w.Appender.Append(t.Context(), []bucket.Append{{Owner: "ann", Entries: entries}})
	require.NoError(t, err)
	at := time.Date(2026, 1, 31, 8, 0, 0, 0, time.UTC)
	for by, want := range map[string][]inbox.ValueCount{
		"attr:n": {{10.0, 2, 2}, {nil, 2, 2}, {9.5, 1, 1}},
		"attr:b": {{true, 2, 2}, {nil, 2, 2}, {false, 1, 1}},
		"attr:t": {{at, 2, 2}, {nil, 2, 2}, {at.AddDate(0, 0, -1), 1, 1}},
		"attr:s": {{"b", 2, 2}, {nil, 2, 2}, {"a", 1, 1}},
	} {
		got, err := w.CountBy(t.Context(), "ann", by)
		require.NoError(t, err)
		require.Equal(t, inbox.Values{Counts: want, Counted: 5, Complete: true, Buckets: 1}, got, by)
	}

	// A message may have thousands of strings. Then the answer has the most frequent ones, and is not complete.
	var many []string
	for i := range 1500 {
		many = append(many, fmt.Sprintf("%04d", i))
	}
	entries = nil
	for n, list := range [][]string{many, many[1400:]} {
		text, err := json.Marshal(map[string]any{"s": list})
		require.NoError(t, err)
		entries = append(entries, bucket.Entry{ID: id(n), From: "ben", Attrs: text})
	}
	_, err = w.Appender.Append(t.Context(), []bucket.Append{{Owner: "many", Entries: entries}})
	require.NoError(t, err)
	got, err := w.CountBy(t.Context(), "many", "attr:s")
	require.NoError(t, err)
	require.Len(t, got.Counts, 1000)
	require.Equal(t, []inbox.ValueCount{{"1400", 2, 2}, {"1499", 2, 2}, {"0000", 1, 1}}, []inbox.ValueCount{got.Counts[0], got.Counts[99], got.Counts[100]})
	require.Equal(t, 2, got.Counted)
	require.False(t, got.Complete)
}

func TestCountByIsRefused(t *testing.T) {
	t.Parallel()
	w := filtering{}.world(t)
	for by, want := range map[string]string{
		"":             "by is missing: give from, or attr:NAME with the name of a declared attribute",
		"to":           `by is "to": give from, or attr:NAME with the name of a declared attribute`,
		"attr":         `by is "attr": give from, or attr:NAME with the name of a declared attribute`,
		"attr:totl":    `by names the attribute "totl", which is not declared: do you mean total?`,
		"attr:invoice": `by names the attribute "invoice", which is not declared: declare it first`,
		"attr:":        `by names the attribute "", which is not declared: declare it first`,
	} {
		_, err := w.CountBy(t.Context(), "ann", by)
		require.ErrorIs(t, err, message.ErrInvalid)
		require.EqualError(t, err, want)
	}
}

// TestCountByIsNoView counts inboxes of users who are dormant or on the way back.
func TestCountByIsNoView(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	require.NoError(t, storetest.See(t.Context(), w.Users, w.Clock.Now(), rig.DormantAfter, "away", "back"))
	users := []message.UserID{"away", "back"}
	for _, user := range users {
		w.fill(t, user, 0, 3)
	}
	w.Clock.Advance(rig.DormantAfter + time.Minute)
	_, err := w.rehydrator.Arrive(t.Context(), "back", w.Clock.Now())
	require.NoError(t, err)
	for _, user := range users {
		before := w.State(t.Context(), t, user)
		got, err := w.CountBy(t.Context(), user, "from")
		require.NoError(t, err)
		require.False(t, got.Complete, user)
		require.Equal(t, 3, got.Counted, user)
		require.Equal(t, before, w.State(t.Context(), t, user))
	}
	w.work(t)
	got, err := w.CountBy(t.Context(), "back", "from")
	require.NoError(t, err)
	require.True(t, got.Complete)
}

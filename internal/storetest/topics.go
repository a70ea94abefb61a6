package storetest

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/topic"
)

// topicStore is the topic.Store of an opened database.
type topicStore struct {
	Store  topic.Store
	Reopen func(t *testing.T) topicStore
}

type topicSuite struct{ backend Backend }

// open returns the store of a new, empty database.
func (s topicSuite) open(t *testing.T) topicStore {
	t.Helper()
	return s.of(s.backend.New(t))
}

func (s topicSuite) of(db Database) topicStore {
	return topicStore{Store: db.Topics, Reopen: func(t *testing.T) topicStore { t.Helper(); return s.of(db.Reopen(t)) }}
}

// run tests a backend's topic.Store.
func (s topicSuite) run(t *testing.T) {
	t.Helper()
	t.Run("Step/writes and removes what it began with", s.step)
	t.Run("Step/is refused by another record", s.refused)
	t.Run("Step/of many topics", s.many)
	t.Run("Step/of topics with a dollar sign", s.dollars)
	t.Run("Step/by many has one winner", s.concurrently)
	t.Run("Get/returns records in the order of topics", s.get)
	t.Run("List/of a subtree ascends above after up to limit", s.list)
	t.Run("List/ends where a longer segment begins", s.similar)
	t.Run("Reopen/keeps records", s.reopen)
}

// node returns the record of the topic of a path that is in force, and has a number.
func node(path string, number int) topic.Record {
	return topic.Record{Topic: message.Topic(path), Number: topic.Number(number), InForce: true}
}

// absent returns the record of a topic that has none.
func absent(path string) topic.Record { return topic.Record{Topic: message.Topic(path)} }

func (h topicStore) step(t *testing.T, from, to topic.Record) topic.Record {
	t.Helper()
	got, err := h.Store.Step(t.Context(), []topic.Change{{From: from, To: to}})
	require.NoError(t, err)
	require.Len(t, got, 1)
	return got[0]
}

func (h topicStore) get(t *testing.T, path string) topic.Record {
	t.Helper()
	got, err := h.Store.Get(t.Context(), []message.Topic{message.Topic(path)})
	require.NoError(t, err)
	require.Len(t, got, 1)
	return got[0]
}

func (h topicStore) list(t *testing.T, under, after string, limit int) []string {
	t.Helper()
	records, err := h.Store.List(t.Context(), message.Topic(under), message.Topic(after), limit)
	require.NoError(t, err)
	paths := []string{}
	for _, r := range records {
		require.Equal(t, r, h.get(t, string(r.Topic)))
		paths = append(paths, string(r.Topic))
	}
	return paths
}

// make writes topics, whatever their parents. The nth has the number n, from 1.
func (h topicStore) make(t *testing.T, paths ...string) {
	t.Helper()
	steps := make([]topic.Change, len(paths))
	for i, path := range paths {
		steps[i] = topic.Change{From: absent(path), To: node(path, i+1)}
	}
	got, err := h.Store.Step(t.Context(), steps)
	require.NoError(t, err)
	for i, r := range got {
		require.Equal(t, steps[i].To, r)
	}
}

// lives returns records that a topic can have one after the other.
func lives(path string) []topic.Record {
	inserted := topic.Record{Topic: message.Topic(path), Number: math.MaxInt64, Parent: 7}
	inForce, marked, again := inserted, inserted, inserted
	inForce.InForce = true
	marked.InForce, marked.Mark = true, math.MaxInt64-1
	again.InForce, again.Mark = true, 1
	return []topic.Record{inserted, inForce, marked, inForce, again, absent(path), node(path, 3), absent(path), inserted, absent(path)}
}

func (s topicSuite) step(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	at := absent("news/local")
	require.Equal(t, at, h.get(t, "news/local"))
	for _, to := range lives("news/local") {
		require.Equal(t, to, h.step(t, at, to))
		require.Equal(t, to, h.get(t, "news/local"))
		require.Equal(t, to, h.step(t, at, to), "a repeated step finds what it wrote")
		at = to
	}
	require.Equal(t, at, h.step(t, at, at), "nothing to remove")
	none, err := h.Store.Step(t.Context(), nil)
	require.NoError(t, err)
	require.Empty(t, none)
}

// dollars writes topics whose names are expressions to a server.
func (s topicSuite) dollars(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	for _, path := range []string{"$x", "$", "$$NOW", "news/$y", "$x/$$ROOT"} {
		at := absent(path)
		for _, to := range lives(path) {
			require.Equal(t, to, h.step(t, at, to))
			require.Equal(t, to, h.get(t, path))
			at = to
		}
	}
}

func (s topicSuite) refused(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	records := lives("news")
	slices.SortFunc(records, func(x, y topic.Record) int {
		return cmp.Or(cmp.Compare(x.Number, y.Number), cmp.Compare(x.Mark, y.Mark))
	})
	records = slices.Compact(records)
	at := absent("news")
	for _, there := range records {
		require.Equal(t, there, h.step(t, at, there))
		at = there
		for _, from := range records {
			if from == there {
				continue
			}
			for _, to := range []topic.Record{absent("news"), node("news", 5)} {
				require.Equal(t, there, h.step(t, from, to))
				require.Equal(t, there, h.get(t, "news"))
			}
		}
	}
	require.Equal(t, absent("other"), h.step(t, node("other", 1), node("other", 2)), "there is no such record")
	require.Equal(t, absent("other"), h.get(t, "other"))
}

func (s topicSuite) many(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	h.make(t, "a", "a/b", "c")
	marked := node("a", 1)
	marked.Mark = 9
	got, err := h.Store.Step(t.Context(), []topic.Change{
		{From: node("c", 3), To: absent("c")},
		{From: node("a/b", 9), To: absent("a/b")},
		{From: absent("d"), To: node("d", 4)},
		{From: node("a", 1), To: marked},
	})
	require.NoError(t, err)
	require.Equal(t, []topic.Record{absent("c"), node("a/b", 2), node("d", 4), marked}, got)
	require.Equal(t, []string{"a", "a/b", "d"}, h.list(t, "", "", 10))
}

func (s topicSuite) concurrently(t *testing.T) {
	t.Parallel()
	const callers, rounds = 8, 10
	h := s.open(t)
	for round := range rounds {
		from := h.get(t, "news")
		got := make([][]topic.Record, callers)
		errs := make([]error, callers)
		var wg sync.WaitGroup
		for i := range callers {
			to := node("news", 1000*(round+1)+i)
			wg.Go(func() { got[i], errs[i] = h.Store.Step(t.Context(), []topic.Change{{From: from, To: to}}) })
		}
		wg.Wait()
		there := h.get(t, "news")
		require.EqualValues(t, round+1, there.Number/1000)
		for i := range callers {
			require.NoError(t, errs[i])
			require.Equal(t, []topic.Record{there}, got[i], "all are told of the same record")
		}
		if round%2 == 1 {
			require.Equal(t, absent("news"), h.step(t, there, absent("news")))
		}
	}
}

func (s topicSuite) get(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	made := []string{"b", "a", "a/b", "名前/ü"}
	h.make(t, made...)
	paths := []string{"名前/ü", "a/b", "none", "a", "a/b", "b/a"}
	topics := make([]message.Topic, len(paths))
	for i, path := range paths {
		topics[i] = message.Topic(path)
	}
	got, err := h.Store.Get(t.Context(), topics)
	require.NoError(t, err)
	want := make([]topic.Record, len(paths))
	for i, path := range paths {
		want[i] = absent(path)
		if n := slices.Index(made, path); n >= 0 {
			want[i] = node(path, n+1)
		}
	}
	require.Equal(t, want, got)
	none, err := h.Store.Get(t.Context(), nil)
	require.NoError(t, err)
	require.Empty(t, none)
}

func (s topicSuite) list(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	subtree := []string{"m", "m/a", "m/a!", "m/a/a", "m/a/z", "m/b", "m/名前"}
	all := slices.Concat([]string{"a", "a/m", "m", "m!", "m!/a"}, subtree[1:], []string{"mm", "mm/a", "z"})
	mixed := slices.Clone(all)
	slices.Reverse(mixed)
	h.make(t, mixed...)
	require.Equal(t, all, h.list(t, "", "", math.MaxInt32))
	require.Equal(t, subtree, h.list(t, "m", "", math.MaxInt32))
	for i, path := range subtree {
		require.Equal(t, subtree[i+1:], h.list(t, "m", path, math.MaxInt32))
	}
	for i := range all {
		require.Equal(t, all[i+1:min(i+4, len(all))], h.list(t, "", all[i], 3))
	}
	require.Equal(t, subtree, h.list(t, "m", "a/m", 7), "after precedes the subtree")
	require.Equal(t, subtree[1:3], h.list(t, "m", "m", 2))
	require.Equal(t, subtree[5:], h.list(t, "m", "m/a/zz", 10), "after need not exist")
	require.Equal(t, subtree[1:], h.list(t, "m", "m!", 10), "after is between a topic and those below it")
	require.Empty(t, h.list(t, "m", "z", 10))
	require.Equal(t, []string{"m/a/a", "m/a/z"}, h.list(t, "m/a", "m/a", 10))
	require.Equal(t, []string{"z"}, h.list(t, "z", "", 10), "a topic without others below it")
	require.Empty(t, h.list(t, "m/none", "", 10))
	require.Empty(t, h.list(t, "m", "", 0))
}

func (s topicSuite) similar(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	deep := strings.TrimSuffix(strings.Repeat(strings.Repeat("x", message.MaxSegmentBytes)+"/", message.MaxTopicSegments), "/")
	paths := []string{"new", "new/s", "news", "news/b", "news\u00a1", "newspaper", "newspaper/b", deep}
	h.make(t, paths...)
	require.Equal(t, []string{"new", "new/s"}, h.list(t, "new", "", 10))
	require.Equal(t, []string{"news", "news/b"}, h.list(t, "news", "", 10))
	require.Equal(t, []string{"newspaper", "newspaper/b"}, h.list(t, "newspaper", "", 10))
	require.Equal(t, []string{deep}, h.list(t, deep, "", 10))
	require.Empty(t, h.list(t, "ne", "", 10), "half a segment is none")
}

func (s topicSuite) reopen(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	var want []topic.Record
	for i, r := range lives("")[:5] {
		r.Topic = message.Topic(fmt.Sprint("topic-", i))
		h.step(t, absent(string(r.Topic)), r)
		want = append(want, r)
	}
	h.make(t, "zoo")
	h.step(t, h.get(t, "zoo"), absent("zoo"))
	h = h.Reopen(t)
	got, err := h.Store.List(t.Context(), "", "", 10)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

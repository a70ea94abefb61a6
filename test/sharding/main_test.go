package main

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/test/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// TestPage holds the tables in the page against those that the program prints.
func TestPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("README.md")
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(page), "<!-- go run ./test/sharding -->\n")
	require.True(t, found, "the page says where its tables begin")
	there, _, found := strings.Cut(rest, "<!-- end -->\n")
	require.True(t, found, "the page says where its tables end")
	var stdout, stderr bytes.Buffer
	require.Zero(t, run(nil, &stdout, &stderr), "%s", stderr.String())
	require.Equal(t, stdout.String(), there, "put the output of go run ./test/sharding into test/sharding/README.md")
	_, table, _ := strings.Cut(there, "**layouts of inboxes**")
	_, table, found = strings.Cut(table, "\n\n")
	require.True(t, found)
	benchmarks, err := os.ReadFile("../../docs/benchmarks.md")
	require.NoError(t, err)
	require.Contains(t, string(benchmarks), "\n"+table, "put the last table into docs/benchmarks.md, too")
}

// TestInboxes changes the shard key of one layout: the number of shards that its reads ask changes, and no other row.
func TestInboxes(t *testing.T) {
	t.Parallel()
	rows := func(all []inboxes) map[string][]string {
		rows := make(map[string][]string)
		for line := range strings.Lines(inboxTable(newWorld(small), all)) {
			if cells := strings.Split(strings.Trim(line, "| \n"), " | "); len(cells) == 4 {
				rows[cells[0]] = cells
			}
		}
		return rows
	}
	before := rows(layouts())
	require.Equal(t, rows(layouts()), before, "the same number, the same table")
	require.Equal(t, "1.0 1.0 1.0", before["`on-read`"][2], "a message is one document")
	require.Equal(t, "4.0 16.0 64.0", before["`on-read`"][3], "a read does not know who has written")
	require.Equal(t, "1.0 1.0 1.0", before["`newest-n`"][3], "an inbox is one document")
	changed := layouts()
	for i := range changed {
		if changed[i].name == "on-write" {
			changed[i].parts[0].key = func(owner user, n uint64) key { return key{hash(uint64(owner), n)} }
		}
	}
	after := rows(changed)
	least := func(cells []string) float64 {
		var read [3]float64
		_, err := fmt.Sscan(cells[3], &read[0], &read[1], &read[2])
		require.NoError(t, err)
		return read[2]
	}
	require.Less(t, least(before["`on-write`"]), 2.)
	require.Greater(t, least(after["`on-write`"]), 4.)
	delete(before, "`on-write`")
	delete(after, "`on-write`")
	require.Equal(t, before, after)
}

func TestRun(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		args   []string
		code   int
		stderr string
	}{
		"a call for help": {[]string{"-help"}, 0, "go run ./test/sharding"},
		"an argument":     {[]string{"inbox"}, 2, `unexpected argument "inbox"`},
		"an unknown flag": {[]string{"-fast"}, 2, "-fast"},
		"no number":       {[]string{"-seed", "x"}, 2, "-seed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var stdout, stderr bytes.Buffer
			require.Equal(t, test.code, run(test.args, &stdout, &stderr))
			require.Contains(t, stderr.String(), test.stderr)
			require.Empty(t, stdout.String())
		})
	}
}

// small is a population that takes no time.
var small = dimensions{
	seed: 1, users: 500, newcomers: 20, followees: 10, posts: 50, window: 0.1, stays: 0.3,
	partitions: 4, express: 100, batch: 50,
}

// TestWorld holds a population to what the page says of it.
func TestWorld(t *testing.T) {
	t.Parallel()
	first := tables(newWorld(small))
	require.Equal(t, first, tables(newWorld(small)), "the same number, the same tables")
	other := small
	other.seed++
	require.NotEqual(t, first, tables(newWorld(other)))
	w := newWorld(small)
	edges, most, active := 0, 0, 0
	for u := range w.users {
		edges += len(w.follows[u])
		most = max(most, len(w.followers[u]))
		require.Len(t, slices.Compact(slices.Clone(w.followers[u])), len(w.followers[u]), "each once")
		require.NotContains(t, w.followers[u], u, "nobody follows themselves")
		if w.active[u] {
			active++
		}
	}
	require.EqualValues(t, w.users-1, most, "everybody follows the most followed")
	require.InEpsilon(t, float64(w.users)*w.followees, edges, 0.1)
	require.InEpsilon(t, w.stays, float64(active)/float64(w.users), 0.2)
	for u := range user(len(w.active)) {
		require.LessOrEqual(t, w.lived[u], max(0, 1-float64(u)/float64(w.users)), "nobody is active before they register")
		require.False(t, u >= w.users && w.past[u] > 0, "newcomers have published nothing")
	}
}

func TestLayout(t *testing.T) {
	t.Parallel()
	var documents []key
	for i := range uint64(10 * rangesEach) {
		documents = append(documents, key{hash(i), i})
	}
	for i := range uint64(100) {
		documents = append(documents, key{7}, key{i % 2, 1})
	}
	l := cut(documents)
	sum := 0
	for i, size := range l.size {
		sum += size
		require.Equal(t, i, l.find(l.from[i]), "a range begins with its first key")
		if i > 0 {
			require.Negative(t, l.from[i-1].compare(l.from[i]), "no key is in two ranges")
			require.Equal(t, i-1, l.find(key{l.from[i][0] - 1, 1 << 63}))
		}
	}
	require.Equal(t, len(documents), sum, "each document is in one of them")
	require.GreaterOrEqual(t, l.size[l.find(key{7})], 100, "what has one key stays together")
	require.Zero(t, l.find(key{}), "the first range begins below everything")
	for _, shards := range clusters {
		held := make([]int, shards)
		for i, shard := range l.deal(shards) {
			held[shard] += l.size[i]
		}
		for _, n := range held {
			require.InDelta(t, len(documents)/shards, n, 150, "dealt evenly, but for the large range")
		}
	}
}

// TestForum holds the messages to topics, and the returns, to what the page says of them.
func TestForum(t *testing.T) {
	t.Parallel()
	first := topicTable(newForum(newWorld(small)))
	require.Equal(t, first, topicTable(newForum(newWorld(small))), "the same number, the same table")
	w := newWorld(small)
	f := newForum(w)
	published := 0
	for _, n := range w.past {
		published += n
	}
	require.Len(t, f.past, published)
	var messages, rows []key
	for _, p := range f.past {
		require.Zero(t, uint64(p.to.root())%(below+1))
		require.NotEqual(t, p.to, p.to.root(), "messages are to topics below roots")
		messages, rows = append(messages, p.message()), append(rows, p.rows()...)
	}
	returns := f.returns()
	require.NotEmpty(t, returns)
	for _, m := range returns {
		require.Len(t, m.topics, subscriptions)
		require.LessOrEqual(t, len(m.messages), limit)
		for i, p := range m.messages {
			require.True(t, m.topics[p.to] || m.topics[p.to.root()], "it is found by a subscription")
			require.True(t, i == 0 || p.id <= m.messages[i-1].id, "the newest come first")
		}
	}
	for _, shards := range clusters {
		page, all := ask(returns, firstPage, shards, cut(rows), cut(messages)), ask(returns, limit, shards, cut(rows), cut(messages))
		require.LessOrEqual(t, page.search, all.search)
		require.LessOrEqual(t, all.search, all.both)
		require.LessOrEqual(t, all.both, float64(shards)+0.001)
	}
}

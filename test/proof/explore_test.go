package main

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// counter is a model whose states are numbers: it adds 1 or doubles, up to a limit.
type counter struct{ limit, bad, end int }

func (c counter) initial() []int { return []int{1} }

func (c counter) next(n int, yield func(event, int)) {
	if n+1 <= c.limit {
		yield(happened("add %d", 1), n+1)
	}
	if 2*n <= c.limit {
		yield(happened("double"), 2*n)
	}
}

func (c counter) wrong(n int) string {
	if n == c.bad {
		return "bad"
	}
	return ""
}

func (c counter) stuck(n int) string {
	if n != c.end {
		return "stuck"
	}
	return ""
}

func (c counter) show(n int) string { return strconv.Itoa(n) }

func TestExploreVisitsEveryStateOnce(t *testing.T) {
	t.Parallel()
	found := explore(counter{limit: 100_000, end: 100_000})
	require.Empty(t, found.violation)
	require.Equal(t, 100_000, found.states)
	require.Equal(t, 99_999+50_000, found.transitions)
	require.Equal(t, 31, found.depth, "98303 has 17 binary digits, 16 of them 1: 16 times to double and 15 to add")
}

func TestExploreFindsAShortestWay(t *testing.T) {
	t.Parallel()
	found := explore(counter{limit: 1000, bad: 13, end: 1000})
	require.Equal(t, "bad", found.violation)
	require.Equal(t, 5, found.depth)
	require.Equal(t, []line{
		{"at first", "1"}, {"add 1", "2"}, {"add 1", "3"}, {"double", "6"}, {"double", "12"}, {"add 1", "13"},
	}, found.trace)
}

func TestExploreFindsWhereNothingGoesOn(t *testing.T) {
	t.Parallel()
	found := explore(counter{limit: 10})
	require.Equal(t, "stuck", found.violation)
	require.Equal(t, "10", found.trace[len(found.trace)-1].state)
}

func TestExploreLooksAtTheBeginning(t *testing.T) {
	t.Parallel()
	found := explore(counter{limit: 10, bad: 1})
	require.Equal(t, "bad", found.violation)
	require.Equal(t, []line{{"at first", "1"}}, found.trace)
}

func TestCycle(t *testing.T) {
	t.Parallel()
	require.Nil(t, cycle(counter{limit: 1000}))
	require.Equal(t, []line{{"at first", "1"}, {"double", "2"}, {"double", "4"}, {"double", "8"}, {"back", "2"}}, cycle(circle{counter{limit: 10}}))
	found := exploreToTheEnd(circle{counter{limit: 10, end: 10}})
	require.Equal(t, "a run need not end", found.violation)
	require.Len(t, found.trace, found.depth+1)
}

// circle is a counter that goes from 8 back to 2.
type circle struct{ counter }

func (c circle) next(n int, yield func(event, int)) {
	c.counter.next(n, yield)
	if n == 8 {
		yield(happened("back"), 2)
	}
}

func TestParents(t *testing.T) {
	t.Parallel()
	const count = 10_000 // it grows twice
	p := newParents()
	for n := uint64(1); n <= count; n++ {
		require.True(t, p.add(n, n-1))
	}
	for n := uint64(1); n <= 100; n++ {
		require.True(t, p.add(n<<40|1, (n-1)<<40|min(n-1, 1)), "these belong in one place")
	}
	require.False(t, p.add(7, 99), "it is known")
	require.Len(t, p.path(count), count)
	require.Equal(t, []uint64{1<<40 | 1, 2<<40 | 1, 3<<40 | 1}, p.path(3<<40|1))
}

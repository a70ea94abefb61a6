package main

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/bench"
	"github.com/fanmail/fanmail/pkg/message"
)

// drawn returns the messages and searches of a run.
func drawn(n int, seed uint64) *finding {
	f := &finding{world: &world{&bench.World{Opened: time.Now()}}, o: FindOptions{Entries: n, Page: 50, Requests: 2, Walks: 1, Seed: seed}}
	f.draw()
	return f
}

// TestFindDraws checks how many messages each search finds, that it finds the newest first, and that a seed decides which these are.
func TestFindDraws(t *testing.T) {
	t.Parallel()
	f := drawn(20_000, 1)
	same, other := drawn(20_000, 1), drawn(20_000, 2)
	places := func(f *finding, s search) (at []int) {
		for i, e := range slices.Backward(f.entries) {
			if slices.Contains(s.want, e.ID) {
				at = append(at, i)
			}
		}
		return at
	}
	matched := make(map[message.ID]bool)
	for i, want := range []int{2000, 20, 1, 2000, 20, 1} {
		s := f.searches[i]
		require.Len(t, s.want, want, s.name)
		require.True(t, slices.IsSortedFunc(s.want, func(x, y message.ID) int {
			if y.Less(x) {
				return -1
			}
			return 1
		}), s.name)
		for _, id := range s.want {
			matched[id] = true
		}
		if want == 20 {
			require.Equal(t, places(f, s), places(same, same.searches[i]), s.name)
			require.NotEqual(t, places(f, s), places(other, other.searches[i]), s.name)
		}
	}
	require.Equal(t, matched, f.matches)
}

// TestFindIsExact refuses pages that lack a message, have one too many, or are in another order.
func TestFindIsExact(t *testing.T) {
	t.Parallel()
	f := drawn(2000, 1)
	s := f.searches[0] // 200 messages: four pages, and an empty one
	for name, test := range map[string]struct {
		page  func(at int, ids []message.ID) []message.ID
		wrong string
	}{
		"right":                {page: func(_ int, ids []message.ID) []message.ID { return ids }},
		"one less at first":    {func(at int, ids []message.ID) []message.ID { return ids[min(1, len(ids))*max(0, 1-at):] }, "the first page"},
		"another order":        {func(_ int, ids []message.ID) []message.ID { slices.Reverse(ids); return ids }, "the first page"},
		"one less in the end":  {func(at int, ids []message.ID) []message.ID { return ids[min(len(ids), at/150):] }, "all pages have 199 messages, and 200 match"},
		"one twice in the end": {func(at int, ids []message.ID) []message.ID { return append(ids, ids[:min(len(ids), at/150)]...) }, "all pages have 201 messages, and 200 match"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			figures, err := f.measure(t.Context(), s, func(_ context.Context, s search, w *walk) error {
				at := w.requests * 50
				ids := slices.Clone(s.want[at:min(at+50, len(s.want))])
				w.ids = append(w.ids, test.page(at, ids)...)
				w.requests++
				w.ended = len(ids) == 0
				return nil
			})
			if test.wrong != "" {
				require.ErrorContains(t, err, test.wrong)
				return
			}
			require.NoError(t, err)
			require.Equal(t, []Figure{figure("found", 200, ""), figure("requests", 5, "")}, []Figure{figures[0], figures[4]})
		})
	}
}

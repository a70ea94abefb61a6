package storetest

import (
	"fmt"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/message"
)

func (s messageSuite) oldest(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	var all []message.Old
	for n := range 6 {
		m := fullMessage(n, message.UserID(rune('f'-n)))
		m.Topics = [][]message.Topic{nil, {"news"}}[n%2]
		_, err := h.Messages.Insert(t.Context(), []message.Message{m}, messagetest.AnyTime)
		require.NoError(t, err)
		stored, err := h.Messages.Get(t.Context(), m.Ref())
		require.NoError(t, err)
		all = append(all, message.Old{Ref: m.Ref(), Stamp: stored.Stamp, Unfinished: n != 2})
	}
	require.NoError(t, h.Messages.Conclude(t.Context(), []message.Ending{{Ref: all[2].Ref}}))
	for _, test := range []struct {
		after, upTo message.ID
		limit       int
		want        []message.Old
	}{
		{message.ID{}, message.MaxID, 10, all},
		{message.ID{}, message.MaxID, 2, all[:2]},
		{id(1), id(4), 10, all[2:5]},
		{id(1), id(4), 1, all[2:3]},
		{id(4), id(4), 10, nil},
		{id(6), message.MaxID, 10, nil},
		{message.ID{}, message.MaxID, 0, nil},
	} {
		got, err := h.Messages.Oldest(t.Context(), test.after, test.upTo, test.limit)
		require.NoError(t, err)
		require.Equal(t, test.want, got, "%s to %s, %d", test.after, test.upTo, test.limit)
	}
}

func (s messageSuite) newest(t *testing.T) {
	t.Parallel()
	h := s.insertSeries(t)
	named := fullMessage(4, "ann")
	named.Audience = ""
	_, err := h.Messages.Insert(t.Context(), []message.Message{named}, messagetest.AnyTime)
	require.NoError(t, err)
	froms := maps.Clone(froms)
	froms[4] = "ann"
	for _, test := range []struct {
		from   message.UserID
		before message.ID
		limit  int
		want   []int
	}{
		{"", message.MaxID, 100, []int{9, 7, 5, 4, 3, 1}},
		{"", message.MaxID, 2, []int{9, 7}},
		{"", id(7), 100, []int{5, 4, 3, 1}},
		{"", id(8), 1, []int{7}},
		{"", id(1), 100, nil},
		{"", message.ID{}, 100, nil},
		{"", message.MaxID, 0, nil},
		{"ann", message.MaxID, 100, []int{7, 4, 3}},
		{"ann", message.MaxID, 1, []int{7}},
		{"ann", id(7), 2, []int{4, 3}},
		{"an", message.MaxID, 100, nil},
	} {
		got, rest, err := h.Messages.Newest(t.Context(), test.from, test.before, test.limit)
		require.NoError(t, err)
		require.Equal(t, refs(froms, test.want...), append([]message.Ref{}, got...), "%q before %s, %d", test.from, test.before, test.limit)
		if len(got) < test.limit {
			require.Zero(t, rest, "there are no more")
		} else if test.limit > 0 && !rest.IsZero() {
			require.Equal(t, got[test.limit-1].ID, rest)
		}
	}
}

// newestOfAuthor has more messages of another author than a store looks at in one call.
func (s messageSuite) newestOfAuthor(t *testing.T) {
	t.Parallel()
	const others = 1500
	h := s.open(t)
	messages := []message.Message{messagetest.Message(0, "ann")}
	for n := range others {
		messages = append(messages, messagetest.Message(n+1, "bob"))
	}
	messages = append(messages, messagetest.Message(others+1, "ann"))
	_, err := h.Messages.Insert(t.Context(), messages, messagetest.AnyTime)
	require.NoError(t, err)
	for from, want := range map[message.UserID]int{"ann": 2, "bob": others, "": others + 2} {
		count := 0
		for before := message.MaxID; !before.IsZero(); {
			refs, rest, err := h.Messages.Newest(t.Context(), from, before, 400)
			require.NoError(t, err)
			require.True(t, rest.Less(before), "each call goes further")
			for _, ref := range refs {
				require.True(t, ref.ID.Less(before) && !ref.ID.Less(rest))
				before = ref.ID
			}
			count, before = count+len(refs), rest
		}
		require.Equal(t, want, count, from)
	}
}

// remove removes some messages, and demands that no read finds them, and that all find the others.
func (s messageSuite) remove(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	var kept, removed []message.Ref
	for n := range 6 {
		m := fullMessage(n, message.UserID(rune('a'+n/2)))
		m.Topics = []message.Topic{message.Topic("go/errors"), "news"}
		_, err := h.Messages.Insert(t.Context(), []message.Message{m}, messagetest.AnyTime)
		require.NoError(t, err)
		if n%2 == 0 {
			kept = append(kept, m.Ref())
		} else {
			removed = append(removed, m.Ref())
		}
	}
	_, err := h.Messages.GetMany(t.Context(), removed) // a cache must not keep them
	require.NoError(t, err)
	require.NoError(t, h.Messages.Conclude(t.Context(), []message.Ending{{Ref: removed[0], Delivered: 7}}))
	require.NoError(t, h.Messages.Remove(t.Context(), nil))
	for range 2 {
		require.NoError(t, h.Messages.Remove(t.Context(), removed))
		h.requireOnly(t, kept, removed)
	}
	require.NoError(t, h.Messages.Remove(t.Context(), []message.Ref{{From: "nobody", ID: kept[0].ID}}), "another author's id names no message")
	h.requireOnly(t, kept, removed)
	m := fullMessage(1, "a")
	_, err = h.Messages.Insert(t.Context(), []message.Message{m}, messagetest.AnyTime)
	require.NoError(t, err)
	stored, err := h.Messages.Get(t.Context(), m.Ref())
	require.NoError(t, err)
	require.Equal(t, m, stored.Message, "it can be stored again")
	endings, err := h.Messages.Endings(t.Context(), removed[:1])
	require.NoError(t, err)
	require.Equal(t, []message.Ending{{Ref: removed[0]}}, endings, "and has not ended")
}

func (h messageStore) requireOnly(t *testing.T, kept, removed []message.Ref) {
	t.Helper()
	for _, ref := range removed {
		_, err := h.Messages.Get(t.Context(), ref)
		require.ErrorIs(t, err, message.ErrNotFound)
	}
	ranges := []message.Range{of("go"), of("news")}
	for _, ref := range kept {
		_, err := h.Messages.Get(t.Context(), ref)
		require.NoError(t, err)
		ranges = append(ranges, message.Range{From: ref.From.Source(), Before: message.MaxID})
	}
	refsOf := func(messages []message.Stored, err error) (refs []message.Ref) {
		require.NoError(t, err)
		for _, m := range messages {
			refs = append(refs, m.Ref())
		}
		return refs
	}
	require.Equal(t, kept, refsOf(h.Messages.ToFollowers(t.Context(), ranges, message.OldestFirst, 100)))
	require.Equal(t, kept, refsOf(h.Messages.Naming(t.Context(), "zoë", message.ID{}, message.MaxID, message.OldestFirst, 100)))
	count, err := h.Messages.CountToFollowers(t.Context(), ranges)
	require.NoError(t, err)
	require.EqualValues(t, len(kept), count)
	unfinished, err := h.Messages.Unfinished(t.Context(), message.ID{}, message.MaxID, 100)
	require.NoError(t, err)
	require.Equal(t, kept, unfinished)
	old, err := h.Messages.Oldest(t.Context(), message.ID{}, message.MaxID, 100)
	require.NoError(t, err)
	require.Len(t, old, len(kept))
}

// removeBeside demands that a query beside removals fails never, and has every message that stays: the store looks again where a message was
// removed between an index and the message.
func (s messageSuite) removeBeside(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	const messages, limit = 300, 50
	var refs []message.Ref
	for n := range messages {
		m := messagetest.Message(n, "ann")
		m.To = []message.UserID{"ben"}
		_, err := h.Messages.Insert(t.Context(), []message.Message{m}, messagetest.AnyTime)
		require.NoError(t, err)
		refs = append(refs, m.Ref())
	}
	removing := make(chan error, 1)
	go func() {
		for i := range refs[:messages-limit] {
			if err := h.Messages.Remove(t.Context(), refs[i:i+1]); err != nil {
				removing <- fmt.Errorf("message %d: %w", i, err)
				return
			}
		}
		removing <- nil
	}()
	for done := false; !done; {
		select {
		case err := <-removing:
			require.NoError(t, err)
			done = true
		default:
		}
		some, err := h.Messages.ToFollowers(t.Context(), []message.Range{{From: "ann", Before: message.MaxID}}, message.OldestFirst, limit)
		require.NoError(t, err)
		require.Len(t, some, limit)
		some, err = h.Messages.Naming(t.Context(), "ben", message.ID{}, message.MaxID, message.OldestFirst, limit)
		require.NoError(t, err)
		require.Len(t, some, limit)
	}
}

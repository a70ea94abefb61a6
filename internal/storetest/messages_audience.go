package storetest

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/message"
)

// toFollowers returns all messages by an author to their followers.
func (h messageStore) toFollowers(t *testing.T, from message.UserID) []message.Stored {
	t.Helper()
	ranges := []message.Range{{From: from.Source(), Before: message.MaxID}}
	got, err := h.Messages.ToFollowers(t.Context(), ranges, message.OldestFirst, math.MaxInt32)
	require.NoError(t, err)
	return got
}

// naming returns all messages that name a user.
func (h messageStore) naming(t *testing.T, user message.UserID) []message.Stored {
	t.Helper()
	got, err := h.Messages.Naming(t.Context(), user, message.ID{}, message.MaxID, message.OldestFirst, math.MaxInt32)
	require.NoError(t, err)
	return got
}

func (h messageStore) insert(t *testing.T, messages ...message.Message) {
	t.Helper()
	_, err := h.Messages.Insert(t.Context(), messages, messagetest.AnyTime)
	require.NoError(t, err)
}

// requireStored requires that messages equal the results of Get.
func (h messageStore) requireStored(t *testing.T, messages []message.Stored) {
	t.Helper()
	for _, m := range messages {
		one, err := h.Messages.Get(t.Context(), m.Ref())
		require.NoError(t, err)
		require.Equal(t, one, m)
	}
}

// intervals are ranges over the messages 1, 3, 5, 7 and 9, with the oldest and the newest messages in them up to a limit.
var intervals = []struct {
	name           string
	after, before  message.ID
	limit          int
	oldest, newest []int
}{
	{"everything", message.ID{}, message.MaxID, 100, []int{1, 3, 5, 7, 9}, []int{9, 7, 5, 3, 1}},
	{"limit", message.ID{}, message.MaxID, 2, []int{1, 3}, []int{9, 7}},
	{"exactly as many", message.ID{}, message.MaxID, 5, []int{1, 3, 5, 7, 9}, []int{9, 7, 5, 3, 1}},
	{"both ends are excluded", messagetest.ID(3), messagetest.ID(9), 100, []int{5, 7}, []int{7, 5}},
	{"both ends lie between", messagetest.ID(2), messagetest.ID(8), 2, []int{3, 5}, []int{7, 5}},
	{"only what is between neighbours", messagetest.ID(3), messagetest.ID(5), 100, []int{}, []int{}},
	{"after the last", messagetest.ID(9), message.MaxID, 100, []int{}, []int{}},
	{"before the first", message.ID{}, messagetest.ID(1), 100, []int{}, []int{}},
	{"since a time", message.LastBefore(epoch.Add(5 * time.Millisecond)), message.MaxID, 100, []int{5, 7, 9}, []int{9, 7, 5}},
	{"until a time", message.ID{}, message.MinID(epoch.Add(5 * time.Millisecond)), 100, []int{1, 3}, []int{3, 1}},
	{"an end without a beginning", messagetest.ID(7), messagetest.ID(3), 100, []int{}, []int{}},
	{"nothing asked for", message.ID{}, message.MaxID, 0, []int{}, []int{}},
	{"after the greatest", message.MaxID, message.MaxID, 100, []int{}, []int{}},
}

// inOrder tests a query with the intervals, on the messages 1, 3, 5, 7 and 9.
func inOrder(t *testing.T, h messageStore, query func(after, before message.ID, order message.Order, limit int) ([]message.Stored, error)) {
	t.Helper()
	for _, in := range intervals {
		for order, want := range map[message.Order][]int{message.OldestFirst: in.oldest, message.NewestFirst: in.newest} {
			got, err := query(in.after, in.before, order, in.limit)
			require.NoError(t, err, in.name)
			require.Equal(t, series(want...), ids(got), "%s, order %d", in.name, order)
			h.requireStored(t, got)
		}
	}
}

func (s messageSuite) toFollowersInOrder(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	for _, n := range []int{7, 1, 9, 5, 3} {
		h.insert(t, fullMessage(n, "ann"), messagetest.Message(n+1, "bob"))
	}
	inOrder(t, h, func(after, before message.ID, order message.Order, limit int) ([]message.Stored, error) {
		return h.Messages.ToFollowers(t.Context(), []message.Range{{From: "ann", After: after, Before: before}}, order, limit)
	})
	for _, in := range intervals {
		count, err := h.Messages.CountToFollowers(t.Context(), []message.Range{{From: "ann", After: in.after, Before: in.before}})
		require.NoError(t, err)
		want, err := h.Messages.ToFollowers(t.Context(), []message.Range{{From: "ann", After: in.after, Before: in.before}}, message.OldestFirst, 100)
		require.NoError(t, err)
		require.EqualValues(t, len(want), count, in.name)
	}
	none, err := h.Messages.ToFollowers(t.Context(), nil, message.NewestFirst, 100)
	require.NoError(t, err)
	require.Empty(t, none)
	count, err := h.Messages.CountToFollowers(t.Context(), nil)
	require.NoError(t, err)
	require.Zero(t, count)
}

func (s messageSuite) toFollowersInRanges(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	for n := range 20 {
		h.insert(t, messagetest.Message(n, []message.UserID{"ann", "bob"}[n%2]))
	}
	ranges := []message.Range{ // of ann 2 4, 10, 16 18; of bob 3, 11 13 15
		{From: "ann", After: messagetest.ID(14), Before: message.MaxID},
		{From: "bob", After: messagetest.ID(9), Before: messagetest.ID(17)},
		{From: "ann", After: messagetest.ID(0), Before: messagetest.ID(6)},
		{From: "cid", Before: message.MaxID},
		{From: "ann", After: messagetest.ID(9), Before: messagetest.ID(11)},
		{From: "bob", After: messagetest.ID(2), Before: messagetest.ID(4)},
	}
	all := []int{2, 3, 4, 10, 11, 13, 15, 16, 18}
	for limit := range len(all) + 2 {
		want := all[:min(limit, len(all))]
		got, err := h.Messages.ToFollowers(t.Context(), ranges, message.OldestFirst, limit)
		require.NoError(t, err)
		require.Equal(t, series(want...), ids(got))
		want = slices.Clone(all[max(0, len(all)-limit):])
		slices.Reverse(want)
		got, err = h.Messages.ToFollowers(t.Context(), ranges, message.NewestFirst, limit)
		require.NoError(t, err)
		require.Equal(t, series(want...), ids(got))
	}
	count, err := h.Messages.CountToFollowers(t.Context(), ranges)
	require.NoError(t, err)
	require.EqualValues(t, len(all), count)
}

// similar are users whose ids have common prefixes.
var similar = []message.UserID{"a", "aa", "a\u00e4", "b", "aaa"}

func (s messageSuite) toFollowersKeepsAuthorsApart(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	for i, from := range similar {
		h.insert(t, messagetest.Message(i, from), messagetest.Message(i+10, from))
	}
	for i, from := range similar {
		require.Equal(t, series(i, i+10), ids(h.toFollowers(t, from)), from)
		newest, err := h.Messages.ToFollowers(t.Context(), []message.Range{{From: from.Source(), Before: message.MaxID}}, message.NewestFirst, 100)
		require.NoError(t, err)
		require.Equal(t, series(i+10, i), ids(newest), from)
	}
	require.Empty(t, h.toFollowers(t, "nobody"))
}

func (s messageSuite) toFollowersOnly(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	listed := messagetest.Message(2, "ann")
	listed.Audience, listed.To = message.AudienceListed, []message.UserID{"bob"}
	h.insert(t, messagetest.Message(1, "ann"), listed, fullMessage(3, "ann"))
	require.Equal(t, series(1, 3), ids(h.toFollowers(t, "ann")))
	count, err := h.Messages.CountToFollowers(t.Context(), []message.Range{{From: "ann", Before: message.MaxID}})
	require.NoError(t, err)
	require.EqualValues(t, 2, count)
	require.Equal(t, series(2), ids(h.naming(t, "bob")))
}

// toFollowersOfMany queries a few messages each of some thousands of authors.
func (s messageSuite) toFollowersOfMany(t *testing.T) {
	t.Parallel()
	const authors, limit = 2000, 7
	h := s.open(t)
	var messages []message.Message
	var ranges []message.Range
	for _, i := range rand.New(rand.NewPCG(1, 2)).Perm(authors) { //nolint:gosec // it shall be the same each time
		from := message.UserID(fmt.Sprintf("author-%04d", i))
		messages = append(messages, messagetest.Message(i, from), messagetest.Message(authors+(i*7919)%authors, from))
		ranges = append(ranges, message.Range{From: from.Source(), After: messagetest.ID(9), Before: messagetest.ID(2*authors - 10)})
	}
	h.insert(t, messages...)
	got, err := h.Messages.ToFollowers(t.Context(), ranges, message.OldestFirst, limit)
	require.NoError(t, err)
	require.Equal(t, series(10, 11, 12, 13, 14, 15, 16), ids(got))
	got, err = h.Messages.ToFollowers(t.Context(), ranges, message.NewestFirst, limit)
	require.NoError(t, err)
	require.Equal(t, series(3989, 3988, 3987, 3986, 3985, 3984, 3983), ids(got))
	count, err := h.Messages.CountToFollowers(t.Context(), ranges)
	require.NoError(t, err)
	require.EqualValues(t, 2*authors-20, count)
}

// tied returns the nth id of a series in which four ids have the same millisecond.
func tied(n int) message.ID {
	id := message.MinID(epoch.Add(time.Duration(n/4) * time.Millisecond))
	id[6], id[8] = 0x70, 0x80
	binary.BigEndian.PutUint32(id[12:], uint32(n)) //nolint:gosec // a test counts from 0
	return id
}

// drawRanges draws disjoint ranges over the messages of some authors, ascending for each author.
func drawRanges(t *rapid.T, authors []message.UserID, last int) []message.Range {
	var ranges []message.Range
	for _, from := range authors {
		ends := rapid.SliceOfNDistinct(rapid.IntRange(-1, last+1), 0, 6, rapid.ID).Draw(t, "ends")
		slices.Sort(ends)
		for pair := range slices.Chunk(ends[:len(ends)&^1], 2) {
			r := message.Range{From: from.Source(), After: tied(max(0, pair[0])), Before: tied(pair[1])}
			if pair[0] < 0 {
				r.After = message.ID{}
			}
			if pair[1] > last {
				r.Before = message.MaxID
			}
			ranges = append(ranges, r)
		}
	}
	return rapid.Permutation(ranges).Draw(t, "ranges")
}

// toFollowersAtRandom compares queries of random ranges with a search through all messages.
func (s messageSuite) toFollowersAtRandom(t *testing.T) {
	t.Parallel()
	const count = 400
	h := s.open(t)
	authors := append([]message.UserID{"silent"}, similar...)
	random := rand.New(rand.NewPCG(3, 4)) //nolint:gosec // it shall be the same each time
	all := make([]message.Stored, count)
	for _, n := range random.Perm(count) {
		m := messagetest.Message(n, authors[1+random.IntN(len(authors)-1)])
		m.ID = tied(n)
		if random.IntN(4) == 0 {
			m.Audience, m.To = message.AudienceListed, []message.UserID{"bob"}
		}
		timing := messagetest.AnyTime
		if random.IntN(4) == 0 {
			timing.Slack = -message.MaxSlack // void, however early it is stored
		}
		stamps, err := h.Messages.Insert(t.Context(), []message.Message{m}, timing)
		require.NoError(t, err)
		all[n] = message.Stored{Message: m, Stamp: stamps[0]}
	}
	rapid.Check(t, func(t *rapid.T) {
		ranges := drawRanges(t, authors, count)
		var want []message.Stored
		for _, m := range all {
			if m.ToFollowers() && slices.ContainsFunc(ranges, func(r message.Range) bool {
				return r.From == m.From.Source() && r.After.Less(m.ID) && m.ID.Less(r.Before)
			}) {
				want = append(want, m)
			}
		}
		valid := 0
		for _, m := range want {
			if !m.Void {
				valid++
			}
		}
		counted, err := h.Messages.CountToFollowers(t.Context(), ranges)
		require.NoError(t, err)
		require.EqualValues(t, valid, counted)

		limit := rapid.OneOf(rapid.IntRange(0, 10), rapid.IntRange(0, count)).Draw(t, "limit")
		order := rapid.SampledFrom([]message.Order{message.OldestFirst, message.NewestFirst}).Draw(t, "order")
		got, err := h.Messages.ToFollowers(t.Context(), ranges, order, limit)
		require.NoError(t, err)
		if order == message.NewestFirst {
			slices.Reverse(want)
		}
		require.Len(t, got, min(limit, len(want)))
		for i := range got {
			require.Equal(t, want[i], got[i])
		}
	})
}

func (s messageSuite) countLeavesVoidOut(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	h.insert(t, messagetest.Message(1, "ann"))
	_, err := h.Messages.Insert(t.Context(), []message.Message{messagetest.Message(2, "ann"), messagetest.Message(3, "ann")}, message.Timing{Slack: -message.MaxSlack, Tolerance: message.MaxSlack})
	require.NoError(t, err)
	for range 2 {
		count, err := h.Messages.CountToFollowers(t.Context(), []message.Range{{From: "ann", Before: message.MaxID}})
		require.NoError(t, err)
		require.EqualValues(t, 1, count)
		require.Len(t, h.toFollowers(t, "ann"), 3, "ToFollowers returns them")
		h = h.Reopen(t)
	}
}

func (s messageSuite) namingInOrder(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	for _, n := range []int{7, 1, 9, 5, 3} {
		m := fullMessage(n, message.UserID(fmt.Sprintf("author-%d", n%4)))
		if n > 5 {
			m.Audience = message.AudienceListed
		}
		h.insert(t, m, messagetest.Message(n+1, "bob"))
		h.insert(t, m) // is already stored
	}
	inOrder(t, h, func(after, before message.ID, order message.Order, limit int) ([]message.Stored, error) {
		return h.Messages.Naming(t.Context(), "anna", after, before, order, limit)
	})
	require.Empty(t, h.naming(t, "bob"), "an author is not named by being the author, nor by having followers")
}

func (s messageSuite) namingKeepsUsersApart(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	for i, user := range similar {
		m := messagetest.Message(i, "author")
		m.Audience, m.To = message.AudienceListed, []message.UserID{user}
		everybody := messagetest.Message(i+10, "author")
		everybody.To = slices.Sorted(slices.Values(similar))
		h.insert(t, m, everybody)
	}
	for i, user := range similar {
		require.Equal(t, series(i, 10, 11, 12, 13, 14), ids(h.naming(t, user)), user)
	}
	require.Empty(t, h.naming(t, "author"))
}

func (s messageSuite) shortMessages(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	few, many := messagetest.Message(1, "ann"), messagetest.Message(2, "ann")
	for n := range message.MaxNames + 1 {
		few.To, many.To = many.To, append(slices.Clip(many.To), longest(n))
	}
	h.insert(t, few, many)
	of := func(m message.Message, named int, to ...message.UserID) message.Stored {
		stored, err := h.Messages.Get(t.Context(), m.Ref())
		require.NoError(t, err)
		stored.To, stored.Named = to, named
		return stored
	}
	got, err := h.Messages.ToFollowers(t.Context(), []message.Range{{From: "ann", Before: message.MaxID}}, message.OldestFirst, 3)
	require.NoError(t, err)
	require.Equal(t, []message.Stored{of(few, 0, few.To...), of(many, len(many.To))}, got)
	got, err = h.Messages.Naming(t.Context(), longest(3), message.ID{}, message.MaxID, message.NewestFirst, 3)
	require.NoError(t, err)
	require.Equal(t, []message.Stored{of(many, len(many.To), longest(3)), of(few, 0, few.To...)}, got)
}

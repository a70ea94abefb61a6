package storetest

import (
	"math"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/message"
)

// topical returns a message to topics, and to nobody else.
func topical(n int, from message.UserID, paths ...string) message.Message {
	m := messagetest.Message(n, from)
	m.Audience = message.AudienceListed
	for _, path := range paths {
		m.Topics = append(m.Topics, message.Topic(path))
	}
	return m
}

// of returns the range of all messages of a topic.
func of(path string) message.Range {
	return message.Range{From: message.Topic(path).Source(), Before: message.MaxID}
}

func by(author message.UserID) message.Range {
	return message.Range{From: author.Source(), Before: message.MaxID}
}

// toTopics stores messages whose authors, topics and ancestors of topics overlap. Each range finds what it should, and any ranges together find
// and count each message once.
func (s messageSuite) toTopics(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	both := topical(3, "ann", "go/errors", "news")
	both.Audience = message.AudienceFollowers
	named := topical(4, "bob", "go")
	named.Blocked = 2
	named.To = []message.UserID{"cid"}
	h.insert(t,
		topical(1, "ann", "go/errors"), messagetest.Message(2, "ann"), both, named,
		topical(5, "go", "gopher"), topical(6, "ann", "go/errors/wrapping", "go/fmt"), messagetest.Message(7, "go"),
	)
	window := func(r message.Range, after, before int) message.Range {
		r.After, r.Before = messagetest.ID(after), messagetest.ID(before)
		return r
	}
	for _, test := range []struct {
		name   string
		ranges []message.Range
		want   []message.ID
	}{
		{"a topic, and all below it", []message.Range{of("go")}, series(1, 3, 4, 6)},
		{"a topic below", []message.Range{of("go/errors")}, series(1, 3, 6)},
		{"a leaf", []message.Range{of("go/errors/wrapping")}, series(6)},
		{"not a topic that begins alike", []message.Range{of("gopher")}, series(5)},
		{"no such topic", []message.Range{of("g")}, series()},
		{"an author of the same name", []message.Range{by("go")}, series(7)},
		{"topics that overlap", []message.Range{of("go"), of("go/errors"), of("news")}, series(1, 3, 4, 6)},
		{"an author besides", []message.Range{by("ann"), of("go")}, series(1, 2, 3, 4, 6)},
		{"windows of their own", []message.Range{window(by("ann"), 0, 3), window(of("go"), 0, 2), window(of("go"), 3, 5)}, series(1, 2, 4)},
		{"overlapping windows", []message.Range{window(by("ann"), 2, 9), window(of("news"), 0, 9), window(of("go/errors"), 1, 5)}, series(3)},
	} {
		oldest, err := h.Messages.ToFollowers(t.Context(), test.ranges, message.OldestFirst, math.MaxInt32)
		require.NoError(t, err, test.name)
		require.Equal(t, test.want, ids(oldest), test.name)
		h.requireStored(t, oldest)
		newest, err := h.Messages.ToFollowers(t.Context(), test.ranges, message.NewestFirst, 2)
		require.NoError(t, err, test.name)
		require.Len(t, newest, min(2, len(test.want)), test.name)
		for i, m := range newest {
			require.Equal(t, test.want[len(test.want)-1-i], m.ID, test.name)
		}
		count, err := h.Messages.CountToFollowers(t.Context(), test.ranges)
		require.NoError(t, err, test.name)
		require.EqualValues(t, len(test.want), count, test.name)
	}
	got, err := h.Messages.Get(t.Context(), message.Ref{From: "ann", ID: both.ID})
	require.NoError(t, err)
	require.Equal(t, both, got.Message)
	require.Equal(t, series(4), ids(h.naming(t, "cid")))

	found, err := h.Messages.GetMany(t.Context(), []message.Ref{both.Ref()})
	require.NoError(t, err)
	require.NoError(t, found[0].Err)
	require.Equal(t, both, found[0].Stored.Message)
	endings, err := h.Messages.Endings(t.Context(), []message.Ref{both.Ref(), {ID: both.ID}})
	require.NoError(t, err)
	for _, ending := range endings {
		require.NoError(t, ending.Err)
		require.Equal(t, both.Ref(), ending.Ref)
	}
	old, err := h.Messages.Oldest(t.Context(), message.ID{}, message.MaxID, 100)
	require.NoError(t, err)
	require.Len(t, old, 7)
	require.NoError(t, old[2].Err)
	later, err := h.Messages.AnyAfter(t.Context(), messagetest.ID(5))
	require.NoError(t, err)
	require.True(t, later)
	require.NoError(t, h.Messages.Conclude(t.Context(), []message.Ending{{Ref: both.Ref(), Delivered: 3}}))
	endings, err = h.Messages.Endings(t.Context(), []message.Ref{both.Ref()})
	require.NoError(t, err)
	require.True(t, endings[0].Concluded)

	require.NoError(t, h.Messages.Remove(t.Context(), []message.Ref{both.Ref()}))
	left, err := h.Messages.ToFollowers(t.Context(), []message.Range{by("ann"), of("go"), of("news")}, message.OldestFirst, 100)
	require.NoError(t, err)
	require.Equal(t, series(1, 2, 4, 6), ids(left))
}

// countsManyOfTopics counts more messages of topics than a store reads at a time. Some are void, some of two topics, some in the range of
// their author.
func (s messageSuite) countsManyOfTopics(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	const many = 6000
	var all []message.Message
	for n := range many {
		m := topical(n+1, "ann", "go/errors")
		switch n % 4 {
		case 1:
			m.Topics = append(m.Topics, message.Topic("news"))
		case 2:
			m.From, m.Audience = "bob", message.AudienceFollowers
		}
		all = append(all, m)
	}
	for some := range slices.Chunk(all, 1000) {
		h.insert(t, some...)
	}
	timing := message.Timing{Slack: -message.MaxSlack, Tolerance: message.MaxSlack} // void, however early it is stored
	_, err := h.Messages.Insert(t.Context(), []message.Message{topical(many+1, "ann", "news")}, timing)
	require.NoError(t, err)
	for _, test := range []struct {
		ranges []message.Range
		want   int
	}{
		{[]message.Range{of("go")}, many},
		{[]message.Range{of("news")}, many / 4},
		{[]message.Range{of("go"), of("news"), of("go/errors")}, many},
		{[]message.Range{of("go"), by("bob")}, many},
	} {
		count, err := h.Messages.CountToFollowers(t.Context(), test.ranges)
		require.NoError(t, err)
		require.EqualValues(t, test.want, count)
	}
}

// countsForMany counts for a user who has followed many authors, and subscribed to many topics, each at another time.
func (s messageSuite) countsForMany(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	both := topical(3000, "author-7", "topic-3", "topic-4")
	both.Audience = message.AudienceFollowers
	h.insert(t, both, topical(3001, "ann", "topic-1499"), messagetest.Message(3002, "author-1499"), topical(3003, "author-9", "other"))
	var ranges []message.Range
	for n := range 1500 {
		name := strconv.Itoa(n)
		for _, from := range []message.Range{of("topic-" + name), by(message.UserID("author-" + name))} {
			from.After = messagetest.ID(n)
			ranges = append(ranges, from)
		}
	}
	count, err := h.Messages.CountToFollowers(t.Context(), ranges)
	require.NoError(t, err)
	require.EqualValues(t, 3, count)
}

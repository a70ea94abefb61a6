package storetest

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/message"
)

// messageStore is the message.Store and message.KeyStore of an opened database.
type messageStore struct {
	Messages message.Store
	Keys     message.KeyStore
	Reopen   func(t *testing.T) messageStore
}

type messageSuite struct{ backend Backend }

// open returns the stores of a new, empty database.
func (s messageSuite) open(t *testing.T) messageStore {
	t.Helper()
	return s.of(s.backend.New(t))
}

func (s messageSuite) of(db Database) messageStore {
	return messageStore{
		Messages: db.Messages, Keys: db.Keys,
		Reopen: func(t *testing.T) messageStore { t.Helper(); return s.of(db.Reopen(t)) },
	}
}

// run tests a backend's message.Store and message.KeyStore.
func (s messageSuite) run(t *testing.T) {
	t.Helper()
	t.Run("Insert/then Get returns the message and its stamp", s.insertThenGet)
	t.Run("Insert/returns stamps in the order of messages", s.insertReturnsStampsInOrder)
	t.Run("Insert/leaves a message that is there as it is", s.insertIsIdempotent)
	t.Run("Insert/of one id by many stores it once", s.insertConcurrently)
	t.Run("Insert/keeps no reference to the message", s.insertKeepsNoReference)
	t.Run("Insert/of nothing does nothing", s.insertNothing)
	t.Run("Get/by id alone", s.getByIDAlone)
	t.Run("Get/of an unknown message", s.getUnknown)
	t.Run("GetMany/in the order of refs", s.getMany)
	t.Run("GetMany/of nothing", s.getManyOfNothing)
	t.Run("ToFollowers/in both orders up to limit", s.toFollowersInOrder)
	t.Run("ToFollowers/in several ranges of an author", s.toFollowersInRanges)
	t.Run("ToFollowers/keeps authors apart", s.toFollowersKeepsAuthorsApart)
	t.Run("ToFollowers/leaves messages to a list out", s.toFollowersOnly)
	t.Run("ToFollowers/finds messages by their topics", s.toTopics)
	t.Run("ToFollowers/of many authors", s.toFollowersOfMany)
	t.Run("ToFollowers/and counts at random", s.toFollowersAtRandom)
	t.Run("CountToFollowers/leaves void messages out", s.countLeavesVoidOut)
	t.Run("CountToFollowers/of many messages of topics", s.countsManyOfTopics)
	t.Run("CountToFollowers/of many authors and topics", s.countsForMany)
	t.Run("Verdict/is decided by the clock and the timing of the insert", s.verdictIsDecided)
	t.Run("Verdict/is not changed by a later insert", s.verdictIsKept)
	t.Run("Verdict/is that of the settings of the insert", s.verdictIsNotJudgedAgain)
	t.Run("Verdict/of a message from the future finishes it", s.futureIsFinished)
	t.Run("AnyAfter/passes over void messages", s.anyAfter)
	t.Run("AnyAfter/gives up after many void messages", s.anyAfterMany)
	t.Run("Naming/in both orders up to limit", s.namingInOrder)
	t.Run("Naming/keeps users apart", s.namingKeepsUsersApart)
	t.Run("Naming and ToFollowers/leave out names that are too many", s.shortMessages)
	t.Run("Unfinished/ascends above after up to limit", s.unfinished)
	t.Run("Conclude/records the ending and finishes", s.conclude)
	t.Run("Conclude/again changes nothing", s.concludeAgain)
	t.Run("Conclude/of an unknown message changes nothing", s.concludeUnknown)
	t.Run("Conclude/by many has one winner", s.concludeConcurrently)
	t.Run("Oldest/ascends in a range up to limit", s.oldest)
	t.Run("Newest/descends below before up to limit", s.newest)
	t.Run("Newest/finds what an author sent among many others", s.newestOfAuthor)
	t.Run("Remove/takes messages out of every read", s.remove)
	t.Run("Remove/beside queries", s.removeBeside)
	t.Run("Reopen/keeps what was inserted", s.reopenKeepsMessages)
	t.Run("Reserve/returns the key that holds", s.reserve)
	t.Run("Find/returns a key that holds, and reserves none", s.findKey)
	t.Run("Reserve/takes over an expired key", s.reserveExpired)
	t.Run("Reserve/keeps senders and keys apart", s.reserveKeepsApart)
	t.Run("Reserve/by many has one winner", s.reserveConcurrently)
	t.Run("Replace/only what is reserved", s.replace)
	t.Run("Replace/by many has one winner", s.replaceConcurrently)
	t.Run("Forget/expired keys up to limit", s.forget)
	t.Run("Reopen/keeps keys", s.reopenKeepsKeys)
}

func fullMessage(n int, from message.UserID) message.Message {
	m := messagetest.Message(n, from)
	m.To = []message.UserID{"anna", "zoë"}
	m.ContentType = "text/plain; charset=utf-8"
	m.Attrs = json.RawMessage(`{"a":[1,2],"b":"ä"}`)
	return m
}

func requireTime(t *testing.T, at time.Time) {
	t.Helper()
	require.False(t, at.IsZero(), "a stored message has a time")
	require.Equal(t, time.UTC, at.Location(), "times are in UTC")
	require.Equal(t, at.Truncate(time.Millisecond), at, "times are cut to milliseconds")
}

func (s messageSuite) insertThenGet(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	messages := []message.Message{
		fullMessage(1, "ann"),
		messagetest.Message(2, "ann"),
		{ID: messagetest.ID(3), From: "bob", To: []message.UserID{"ann"}, Attrs: json.RawMessage(`{}`)},
		{ID: messagetest.ID(4), From: message.UserID("ü😀"), To: []message.UserID{"ann"}, Body: "\x00 \" \\ \u2028 😀"},
	}
	stamps, err := h.Messages.Insert(t.Context(), messages, messagetest.AnyTime)
	require.NoError(t, err)
	require.Len(t, stamps, len(messages))
	for i, m := range messages {
		requireTime(t, stamps[i].StoredAt)
		got, err := h.Messages.Get(t.Context(), m.Ref())
		require.NoError(t, err)
		require.Equal(t, message.Stored{Message: m, Stamp: stamps[i]}, got)
	}
}

// insertUntilLater inserts messages from n on until one is stored later than at.
func insertUntilLater(t *testing.T, store message.Store, n int, at time.Time) {
	t.Helper()
	const patience = 10_000
	for i := range patience {
		stamps, err := store.Insert(t.Context(), []message.Message{messagetest.Message(n+i, "clock")}, messagetest.AnyTime)
		require.NoError(t, err)
		if stamps[0].StoredAt.After(at) {
			return
		}
	}
	require.Fail(t, "the store's clock stands still", "open the store with a clock that goes on")
}

func (s messageSuite) insertReturnsStampsInOrder(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	first, err := h.Messages.Insert(t.Context(), []message.Message{messagetest.Message(5, "ann")}, messagetest.AnyTime)
	require.NoError(t, err)
	insertUntilLater(t, h.Messages, 1000, first[0].StoredAt)

	stamps, err := h.Messages.Insert(t.Context(), []message.Message{messagetest.Message(9, "ann"), messagetest.Message(5, "ann"), messagetest.Message(1, "bob")}, messagetest.AnyTime)
	require.NoError(t, err)
	require.Equal(t, first[0], stamps[1])
	require.True(t, stamps[0].StoredAt.After(first[0].StoredAt))
	require.True(t, stamps[2].StoredAt.After(first[0].StoredAt))
	for i, ref := range []message.Ref{messagetest.Message(9, "ann").Ref(), messagetest.Message(5, "ann").Ref(), messagetest.Message(1, "bob").Ref()} {
		got, err := h.Messages.Get(t.Context(), ref)
		require.NoError(t, err)
		require.Equal(t, stamps[i], got.Stamp)
	}
}

func (s messageSuite) insertIsIdempotent(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	m := fullMessage(1, "ann")
	first, err := h.Messages.Insert(t.Context(), []message.Message{m}, messagetest.AnyTime)
	require.NoError(t, err)
	insertUntilLater(t, h.Messages, 1000, first[0].StoredAt)

	other := m
	other.Body = "something else"
	again, err := h.Messages.Insert(t.Context(), []message.Message{other}, messagetest.AnyTime)
	require.NoError(t, err)
	require.Equal(t, first, again, "the first stamp counts")
	got, err := h.Messages.Get(t.Context(), m.Ref())
	require.NoError(t, err)
	require.Equal(t, message.Stored{Message: m, Stamp: first[0]}, got, "a stored message is left as it is")
	require.Len(t, h.toFollowers(t, "ann"), 1)
}

func (s messageSuite) insertConcurrently(t *testing.T) {
	t.Parallel()
	const writers = 8
	h := s.open(t)
	var wg sync.WaitGroup
	stamps := make([][]message.Stamp, writers)
	errs := make([]error, writers)
	for w := range writers {
		wg.Go(func() {
			own := messagetest.Message(100+w, "ann")
			stamps[w], errs[w] = h.Messages.Insert(t.Context(), []message.Message{fullMessage(1, "ann"), own, fullMessage(2, "ann")}, messagetest.AnyTime)
		})
	}
	wg.Wait()
	for w := range writers {
		require.NoError(t, errs[w])
		require.Equal(t, stamps[0][0], stamps[w][0], "everybody is told the same first stamp")
		require.Equal(t, stamps[0][2], stamps[w][2], "everybody is told the same first stamp")
	}
	stored := h.toFollowers(t, "ann")
	require.Len(t, stored, writers+2)
	require.Equal(t, message.Stored{Message: fullMessage(1, "ann"), Stamp: stamps[0][0]}, stored[0])
	require.Equal(t, series(1, 2), ids(h.naming(t, "zoë")))
}

func (s messageSuite) insertKeepsNoReference(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	m := fullMessage(1, "ann")
	_, err := h.Messages.Insert(t.Context(), []message.Message{m}, messagetest.AnyTime)
	require.NoError(t, err)
	got, err := h.Messages.Get(t.Context(), m.Ref())
	require.NoError(t, err)
	require.NotSame(t, &m.To[0], &got.To[0])
	require.NotSame(t, &m.Attrs[0], &got.Attrs[0])
}

func (s messageSuite) insertNothing(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	stamps, err := h.Messages.Insert(t.Context(), nil, messagetest.AnyTime)
	require.NoError(t, err)
	require.Empty(t, stamps)
}

func (s messageSuite) getByIDAlone(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	m := fullMessage(7, "ann")
	stamps, err := h.Messages.Insert(t.Context(), []message.Message{messagetest.Message(6, "bob"), m, messagetest.Message(8, "abe")}, messagetest.AnyTime)
	require.NoError(t, err)
	got, err := h.Messages.Get(t.Context(), message.Ref{ID: m.ID})
	require.NoError(t, err)
	require.Equal(t, message.Stored{Message: m, Stamp: stamps[1]}, got)
}

func (s messageSuite) getUnknown(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	_, err := h.Messages.Insert(t.Context(), []message.Message{messagetest.Message(7, "ann")}, messagetest.AnyTime)
	require.NoError(t, err)
	for name, ref := range map[string]message.Ref{
		"id":            {From: "ann", ID: messagetest.ID(8)},
		"id alone":      {ID: messagetest.ID(8)},
		"author":        {From: "bob", ID: messagetest.ID(7)},
		"author prefix": {From: "an", ID: messagetest.ID(7)},
	} {
		_, err := h.Messages.Get(t.Context(), ref)
		require.ErrorIs(t, err, message.ErrNotFound, name)
	}
}

func (s messageSuite) getMany(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	messages := []message.Message{fullMessage(1, "ann"), messagetest.Message(2, "bob"), fullMessage(3, "ann"), messagetest.Message(4, "cid")}
	stamps, err := h.Messages.Insert(t.Context(), messages, messagetest.AnyTime)
	require.NoError(t, err)
	refs := []message.Ref{
		{From: "cid", ID: messagetest.ID(4)},
		{From: "ann", ID: messagetest.ID(5)}, // no such message
		{From: "ann", ID: messagetest.ID(1)},
		{From: "ann", ID: messagetest.ID(2)}, // another author's message; another ref names both
		{From: "bob", ID: messagetest.ID(2)},
		{From: "ann", ID: messagetest.ID(1)}, // twice
	}
	found, err := h.Messages.GetMany(t.Context(), refs)
	require.NoError(t, err)
	require.Len(t, found, len(refs))
	for i, index := range []int{3, -1, 0, -1, 1, 0} {
		if index < 0 {
			require.ErrorIs(t, found[i].Err, message.ErrNotFound, refs[i])
			continue
		}
		require.NoError(t, found[i].Err, refs[i])
		require.Equal(t, message.Stored{Message: messages[index], Stamp: stamps[index]}, found[i].Stored)
	}
}

func (s messageSuite) getManyOfNothing(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	found, err := h.Messages.GetMany(t.Context(), nil)
	require.NoError(t, err)
	require.Empty(t, found)
}

func ids(stored []message.Stored) []message.ID {
	out := make([]message.ID, len(stored))
	for i, m := range stored {
		out[i] = m.ID
	}
	return out
}

func series(ns ...int) []message.ID {
	out := make([]message.ID, len(ns))
	for i, n := range ns {
		out[i] = messagetest.ID(n)
	}
	return out
}

// bounds are ranges over the ids 1, 3, 5, 7 and 9, with the ids in them.
var bounds = []struct {
	name          string
	after, before message.ID
	limit         int
	want          []int
}{
	{"everything", message.ID{}, message.MaxID, 100, []int{1, 3, 5, 7, 9}},
	{"limit", message.ID{}, message.MaxID, 2, []int{1, 3}},
	{"exactly as many", message.ID{}, message.MaxID, 5, []int{1, 3, 5, 7, 9}},
	{"after is excluded", messagetest.ID(3), message.MaxID, 100, []int{5, 7, 9}},
	{"after lies between", messagetest.ID(4), message.MaxID, 2, []int{5, 7}},
	{"after the last", messagetest.ID(9), message.MaxID, 100, []int{}},
	{"after a time", message.MinID(epoch.Add(5 * time.Millisecond)), message.MaxID, 1, []int{5}},
	{"before is excluded", messagetest.ID(1), messagetest.ID(7), 100, []int{3, 5}},
	{"before a time", message.ID{}, message.MinID(epoch.Add(5 * time.Millisecond)), 100, []int{1, 3}},
	{"before what is after", messagetest.ID(7), messagetest.ID(3), 100, []int{}},
	{"after the greatest", message.MaxID, message.MaxID, 100, []int{}},
}

func refs(froms map[int]message.UserID, ns ...int) []message.Ref {
	out := make([]message.Ref, len(ns))
	for i, n := range ns {
		out[i] = message.Ref{From: froms[n], ID: messagetest.ID(n)}
	}
	return out
}

var froms = map[int]message.UserID{1: "zoe", 3: "ann", 5: "bob", 7: "ann", 9: "abe"}

func (s messageSuite) insertSeries(t *testing.T) messageStore {
	t.Helper()
	h := s.open(t)
	for _, n := range []int{7, 1, 9, 5, 3} {
		_, err := h.Messages.Insert(t.Context(), []message.Message{messagetest.Message(n, froms[n])}, messagetest.AnyTime)
		require.NoError(t, err)
	}
	return h
}

func (s messageSuite) unfinished(t *testing.T) {
	t.Parallel()
	h := s.insertSeries(t)
	for _, b := range bounds {
		got, err := h.Messages.Unfinished(t.Context(), b.after, b.before, b.limit)
		require.NoError(t, err, b.name)
		require.Equal(t, refs(froms, b.want...), append([]message.Ref{}, got...), b.name)
	}
}

func (s messageSuite) reopenKeepsMessages(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	var want []message.Stored
	for n := range 20 {
		m := fullMessage(n, message.UserID(fmt.Sprintf("author-%d", n%3)))
		stamps, err := h.Messages.Insert(t.Context(), []message.Message{m}, messagetest.AnyTime)
		require.NoError(t, err)
		want = append(want, message.Stored{Message: m, Stamp: stamps[0]})
	}
	h = h.Reopen(t)
	for _, m := range want {
		got, err := h.Messages.Get(t.Context(), m.Ref())
		require.NoError(t, err)
		require.Equal(t, m, got)
	}
	unfinished, err := h.Messages.Unfinished(t.Context(), message.ID{}, message.MaxID, 100)
	require.NoError(t, err)
	require.Len(t, unfinished, len(want))
	require.Equal(t, want, h.naming(t, "anna"))
	require.Equal(t, []message.Stored{want[1], want[4], want[7], want[10], want[13], want[16], want[19]}, h.toFollowers(t, "author-1"))
}

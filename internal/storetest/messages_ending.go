package storetest

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/message"
)

func (h messageStore) endings(t *testing.T, refs ...message.Ref) []message.Ending {
	t.Helper()
	endings, err := h.Messages.Endings(t.Context(), refs)
	require.NoError(t, err)
	require.Len(t, endings, len(refs))
	return endings
}

func (h messageStore) conclude(t *testing.T, endings ...message.Ending) {
	t.Helper()
	require.NoError(t, h.Messages.Conclude(t.Context(), endings))
}

func (s messageSuite) conclude(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	messages := []message.Message{fullMessage(1, "ann"), messagetest.Message(2, "bob"), messagetest.Message(3, "ann")}
	messages[0].Topics, messages[0].Blocked = []message.Topic{message.Topic("go/errors"), "news"}, 3
	stamps, err := h.Messages.Insert(t.Context(), messages, messagetest.AnyTime)
	require.NoError(t, err)
	one, two, three := messages[0].Ref(), messages[1].Ref(), messages[2].Ref()
	first, second := message.Ending{Ref: one, Concluded: true, Lane: "bulk", Delivered: 5, Skipped: 6, GivenUp: 2, Closed: 7, Blocked: 3}, message.Ending{Ref: three, Concluded: true}
	h.conclude(t)
	h.conclude(t, first, second)
	for range 2 {
		require.Equal(t, []message.Ending{second, {Ref: two}, first, first}, h.endings(t, three, two, one, message.Ref{ID: one.ID}))
		unfinished, err := h.Messages.Unfinished(t.Context(), message.ID{}, message.MaxID, 10)
		require.NoError(t, err)
		require.Equal(t, []message.Ref{two}, unfinished, "a concluded message is finished")
		stored, err := h.Messages.Get(t.Context(), one)
		require.NoError(t, err)
		require.Equal(t, message.Stored{Message: messages[0], Stamp: stamps[0]}, stored)
		again, err := h.Messages.Insert(t.Context(), messages, messagetest.AnyTime)
		require.NoError(t, err)
		require.Equal(t, stamps, again)
		h = h.Reopen(t)
	}
	require.Empty(t, h.endings(t))
}

func (s messageSuite) concludeAgain(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	m := messagetest.Message(1, "ann")
	_, err := h.Messages.Insert(t.Context(), []message.Message{m}, messagetest.AnyTime)
	require.NoError(t, err)
	first := message.Ending{Ref: m.Ref(), Concluded: true, Delivered: 5, Closed: 7}
	h.conclude(t, first)
	h.conclude(t, message.Ending{Ref: m.Ref(), Delivered: 6, Skipped: 1, Closed: 8})
	require.Equal(t, []message.Ending{first}, h.endings(t, m.Ref()), "the first one stays")
}

func (s messageSuite) concludeUnknown(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	m := messagetest.Message(1, "ann")
	other := message.Ref{From: "bob", ID: m.ID}
	h.conclude(t, message.Ending{Ref: m.Ref(), Delivered: 1})
	require.True(t, h.endings(t, m.Ref())[0].Over(), "it is not stored")
	_, err := h.Messages.Insert(t.Context(), []message.Message{m}, messagetest.AnyTime)
	require.NoError(t, err)
	h.conclude(t, message.Ending{Ref: other, Delivered: 1})
	require.Equal(t, []message.Ending{{Ref: m.Ref()}, {}, {}}, h.endings(t, m.Ref(), other, message.Ref{ID: messagetest.ID(2)}))
	require.False(t, h.endings(t, m.Ref())[0].Over())
}

func (s messageSuite) concludeConcurrently(t *testing.T) {
	t.Parallel()
	const callers = 8
	h := s.open(t)
	messages := []message.Message{messagetest.Message(1, "ann"), messagetest.Message(2, "bob")}
	_, err := h.Messages.Insert(t.Context(), messages, messagetest.AnyTime)
	require.NoError(t, err)
	got := make([][]message.Ending, callers)
	errs := make([]error, callers)
	refs := []message.Ref{messages[0].Ref(), messages[1].Ref()}
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			var conclusions []message.Ending
			for _, ref := range refs {
				conclusions = append(conclusions, message.Ending{Ref: ref, Delivered: int64(i)})
			}
			if errs[i] = h.Messages.Conclude(t.Context(), conclusions); errs[i] == nil {
				got[i], errs[i] = h.Messages.Endings(t.Context(), refs)
			}
		})
	}
	wg.Wait()
	final := h.endings(t, refs...)
	for i := range callers {
		require.NoError(t, errs[i])
		require.Equal(t, final, got[i], "who has concluded sees what stays")
	}
	require.True(t, final[0].Concluded && final[1].Concluded)
}

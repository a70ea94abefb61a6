package storetest

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

func mark(upTo, slots int) bucket.ReadMark {
	return bucket.ReadMark{UpTo: id(upTo), Sequence: uint32(slots / bucket.Capacity), Slots: int64(slots), Gaps: upTo, Read: int64(slots - 1)} //nolint:gosec // a test counts from 0
}

func (s userSuite) setReadMark(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	h.create(t, "ann", epoch)
	for _, step := range []struct {
		name      string
		set, want bucket.ReadMark
	}{
		{"the first", mark(50, 60), mark(50, 60)},
		{"a further one", mark(70, 80), mark(70, 80)},
		{"one behind, set later", mark(60, 90), mark(70, 80)},
		{"the same place again, when more had come", mark(70, 95), mark(70, 95)},
	} {
		got, err := h.Store.SetReadMark(t.Context(), "ann", step.set)
		require.NoError(t, err, step.name)
		require.Equal(t, step.want, got, step.name)
		require.Equal(t, userstate.State{User: "ann", LastViewed: epoch, ReadMark: step.want}, h.lookup(t, "ann"), step.name)
	}
}

// setReadMarkInOrder sets every mark that is lower, equal or higher in id, slots and gaps than the stored one.
func (s userSuite) setReadMarkInOrder(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	stored := bucket.ReadMark{UpTo: id(50), Sequence: 1, Slots: 60, Gaps: 2, Read: 55}
	names := map[int]string{-1: "lower", 0: "equal", 1: "higher"}
	set := func(user message.UserID, mark, want bucket.ReadMark, name string) {
		t.Helper()
		got, err := h.Store.SetReadMark(t.Context(), user, mark)
		require.NoError(t, err, name)
		require.Equal(t, want, got, name)
		require.Equal(t, userstate.State{User: user, LastViewed: epoch, ReadMark: want}, h.lookup(t, user), name)
	}
	for upTo := -1; upTo <= 1; upTo++ {
		for slots := -1; slots <= 1; slots++ {
			for gaps := -1; gaps <= 1; gaps++ {
				name := fmt.Sprintf("id-%s.slots-%s.gaps-%s", names[upTo], names[slots], names[gaps])
				user := message.UserID(name)
				h.create(t, user, epoch)
				next := bucket.ReadMark{UpTo: id(50 + upTo), Sequence: 1, Slots: 60 + int64(slots), Gaps: 2 + gaps, Read: 56}
				want := next
				if upTo < 0 || slots < 0 || gaps < 0 {
					want = stored
				}
				set(user, stored, stored, name)
				set(user, next, want, name)
				set(user, next, want, name+", once more")
			}
		}
	}
}

func (s userSuite) setReadMarkUnknown(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	_, err := h.Store.SetReadMark(t.Context(), "ann", mark(50, 60))
	require.ErrorIs(t, err, userstate.ErrNotFound)
	require.Equal(t, userstate.State{User: "ann"}, h.lookup(t, "ann"))
}

func (s userSuite) setReadMarkConcurrently(t *testing.T) {
	t.Parallel()
	const callers = 16
	h := s.open(t)
	h.create(t, "ann", epoch)
	got := make([]bucket.ReadMark, callers)
	errs := make([]error, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() { got[i], errs[i] = h.Store.SetReadMark(t.Context(), "ann", mark((i*7)%callers, 100)) })
	}
	wg.Wait()
	for i := range callers {
		require.NoError(t, errs[i])
		require.False(t, got[i].UpTo.Less(id((i*7)%callers)), "what holds is at least what was set")
	}
	require.Equal(t, mark(callers-1, 100), h.lookup(t, "ann").ReadMark)
}

//go:build long

package e2e_test

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/partition"
	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// inFlight counts the unfinished work of a killed server: stored messages whose fan-out has not begun, and messages whose fan-out
// has begun and is not done.
func (w *world) inFlight(ctx context.Context) (pending, running int) {
	w.Helper()
	w.left(ctx, func(store stores) {
		for after, more := (message.ID{}), true; more; {
			refs, err := store.messages.Unfinished(ctx, after, message.MaxID, leftPage)
			require.NoError(w, err)
			for _, ref := range refs {
				after = ref.ID
				fanout, err := store.progress.Get(ctx, ref.ID)
				switch {
				case errors.Is(err, progress.ErrNotFound):
					pending++
					continue
				case err == nil && !fanout.Done(): // a done fan-out may still be recorded as unfinished
					running++
				}
				require.NoError(w, err)
			}
			more = len(refs) == leftPage
		}
	})
	return pending, running
}

// rehydrating returns the users with a mark, and those with only a sweep, that a killed server has left.
func (w *world) rehydrating(ctx context.Context) (marked, swept []message.UserID) {
	w.Helper()
	forever := time.UnixMilli(1 << 47)
	w.left(ctx, func(store stores) {
		due, err := userstate.States(store.users.Due(ctx, userstate.Dead{Before: forever}, math.MaxInt))
		require.NoError(w, err)
		for _, st := range due {
			if st.Mark != nil {
				marked = append(marked, st.User)
			} else {
				swept = append(swept, st.User)
			}
		}
	})
	return marked, swept
}

// gaps counts the gaps in the inboxes of a stopped server, and the messages in them. It requires that no bucket has an entry in a
// gap.
func (w *world) gaps(ctx context.Context) (gaps, messages int) {
	w.Helper()
	w.left(ctx, func(store stores) {
		for p := range partition.DefaultCount {
			for after, more := message.UserID(""), true; more; {
				states, err := userstate.States(store.users.List(ctx, p, after, leftPage))
				require.NoError(w, err)
				for _, st := range states {
					after = st.User
					for _, gap := range st.Gaps {
						gaps++
						messages += int(gap.Messages)
						w.requireNothingIn(ctx, store, st, gap)
					}
				}
				more = len(states) == leftPage
			}
		}
	})
	return gaps, messages
}

// requireNothingIn requires that no bucket has an entry in a gap, except for tombstones.
func (w *world) requireNothingIn(ctx context.Context, store stores, st userstate.State, gap userstate.Gap) {
	w.Helper()
	buckets, err := bucket.ReadSection(ctx, store.inbox, bucket.Section{Owner: st.User, High: math.MaxUint32}, bucket.AllFields)
	require.NoError(w, err)
	for _, b := range buckets {
		for _, e := range b.Entries {
			require.False(w, !e.Deleted && gap.Holds(e.Sent()), "%s has %s in bucket %d and in a gap", st.User, e.ID, b.Sequence)
		}
	}
}

// leftPage is the number of remaining records in one read.
const leftPage = 500

package audit_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/audit"
	"github.com/fanmail/fanmail/internal/inbox"
	"github.com/fanmail/fanmail/internal/rehydrate"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
	"github.com/fanmail/fanmail/pkg/verdict"
)

// gapBegin is the end before of the gap that newGap makes.
var gapBegin = epoch.Add(-30 * time.Minute)

// newGap returns a world in which ben has a gap that counts these messages by ann, one a second, and a bucket with a later message. He has
// read the first three.
func newGap(t *testing.T, count int) (w *world, inGap []message.Message, later message.Message) {
	t.Helper()
	w = newWorld(t)
	for n := range count {
		inGap = append(inGap, w.pass(w.toFollowers(gapBegin.Add(time.Duration(n+1)*time.Second))))
	}
	later = w.named(epoch.Add(-time.Second), "ben")
	w.deliver(later)
	w.change(func(s *userstate.State) {
		s.Gaps = []userstate.Gap{{After: gapBegin, Before: gapBegin.Add(time.Minute), Messages: int64(count)}}
		s.ReadMark = bucket.ReadMark{UpTo: inGap[2].ID, Slots: 1, Gaps: 1, InGap: 3}
	})
	w.requireCounts(int64(count-3) + 1)
	return w, inGap, later
}

// requireCounts requires that ben's inbox counts the messages that it shows, and so many unread ones.
func (w *world) requireCounts(unread int64) {
	t := w.t
	t.Helper()
	page, err := w.inboxes().Read(t.Context(), "ben", inbox.Request{Limit: 100, Peek: true})
	require.NoError(t, err)
	require.Empty(t, page.Next)
	require.True(t, page.Complete)
	require.Equal(t, []int64{int64(len(page.Entries)), unread}, []int64{page.Total, page.Unread})
}

// requireTotal requires that ben's inbox counts the messages that it shows.
func (w *world) requireTotal() {
	w.t.Helper()
	ids, total := w.read()
	require.EqualValues(w.t, len(ids), total)
}

// TestRecount has the ways in which the number of a gap becomes wrong. A repair makes the counts those of the pages.
func TestRecount(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		damage func(w *world, inGap []message.Message)
		want   []verdict.Kind
		unread int64 // afterwards, of 6 messages in the gap, 3 of them read, and one in a bucket
	}{
		"a clock that was behind ended the span before a message that is unread": {
			damage: func(w *world, inGap []message.Message) { w.unfollow("ben", "ann", inGap[5].Sent()) },
			want:   []verdict.Kind{verdict.GapCount}, unread: 3,
		},
		"a clock that was behind ended the span before messages that are read": {
			damage: func(w *world, inGap []message.Message) { w.unfollow("ben", "ann", inGap[1].Sent()) },
			want:   []verdict.Kind{verdict.GapCount, verdict.GapCount}, unread: 1,
		},
		"a clock that was behind ended the span before every message": {
			damage: func(w *world, inGap []message.Message) { w.unfollow("ben", "ann", inGap[0].Sent()) },
			want:   []verdict.Kind{verdict.GapCount, verdict.GapCount}, unread: 1,
		},
		"a clock that was behind ended the span before a message that was deleted": {
			damage: func(w *world, inGap []message.Message) {
				require.NoError(w.t, w.inboxes().Delete(w.t.Context(), "ben", inGap[5].ID))
				w.unfollow("ben", "ann", inGap[5].Sent())
			},
			unread: 3,
		},
		"an entry in the gap is for somebody else": {
			damage: func(w *world, inGap []message.Message) { w.append(w.named(gapBegin.Add(10*time.Second), "dora")) },
			want:   []verdict.Kind{verdict.ExtraEntry}, unread: 4,
		},
		"an entry in the read part of the gap is for somebody else": {
			damage: func(w *world, inGap []message.Message) {
				w.append(w.named(gapBegin.Add(1500*time.Millisecond), "dora"))
			},
			want: []verdict.Kind{verdict.ExtraEntry}, unread: 4,
		},
		"two entries in the gap are one message": {
			damage: func(w *world, inGap []message.Message) {
				w.append(inGap[5])
				w.double(inGap[5].ID)
				require.NoError(w.t, w.inboxes().Delete(w.t.Context(), "ben", inGap[5].ID))
			},
			want: []verdict.Kind{verdict.DoubleEntry, verdict.GapOverlap}, unread: 3,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, inGap, _ := newGap(t, 6)
			test.damage(w, inGap)
			found, summary := run(t.Context(), t, w.Service, audit.Request{User: "ben", Repair: true})
			require.Equal(t, test.want, kindsOf(found))
			require.Equal(t, summary.Found, summary.Repaired)
			require.Empty(t, summary.Remaining)
			w.requireCounts(test.unread)
			found, _ = run(t.Context(), t, w.Service, audit.Request{User: "ben"})
			require.Empty(t, found)
		})
	}
}

// TestRecountDuringRehydration leaves the numbers of gaps to a sweep that is due.
func TestRecountDuringRehydration(t *testing.T) {
	t.Parallel()
	w, _, _ := newGap(t, 6)
	w.change(func(s *userstate.State) { s.Gaps[0].Messages = 4 })
	require.NoError(t, userstate.Owe(t.Context(), w.db.Users(), []userstate.State{w.state()}, w.now, false))
	before := w.state()
	found, summary := run(t.Context(), t, w.Service, audit.Request{User: "ben", Repair: true})
	require.Empty(t, found)
	require.EqualValues(t, 1, summary.Rehydrating)
	require.Equal(t, before, w.state())
	require.ErrorIs(t, w.rehydrator(0).Recount(t.Context(), "ben", w.db.Inbox()), rehydrate.ErrRehydrating)
	require.Equal(t, before, w.state())
}

// TestRecountFails fails in the middle of a recount, which then ends its sweep and changes nothing.
func TestRecountFails(t *testing.T) {
	t.Parallel()
	w, _, _ := newGap(t, 6)
	w.change(func(s *userstate.State) { s.Gaps[0].Messages++ })
	before := w.state()
	broken := errors.New("broken")
	store := hooked{Store: w.db.Inbox(), fail: func() error {
		if w.state().Rehydrating() {
			return broken
		}
		return nil
	}}
	found, summary := run(t.Context(), t, w.audit(store), audit.Request{User: "ben", Repair: true})
	require.Equal(t, []verdict.Kind{verdict.GapCount}, kindsOf(found))
	require.False(t, found[0].Repaired)
	require.Equal(t, "not repaired: recount the gaps of ben: broken", found[0].Note)
	require.Equal(t, summary.Found, summary.Remaining)
	require.Equal(t, before, w.state())
}

// hooked fails a recount before it counts.
type hooked struct {
	bucket.Store
	fail func() error
}

// Deletions implements bucket.Store.
func (h hooked) Deletions(ctx context.Context, from []bucket.Head) ([]bucket.Deletions, error) {
	if err := h.fail(); err != nil {
		return nil, err
	}
	return h.Store.Deletions(ctx, from)
}

// read calls a function after messages were read.
type read struct {
	message.Store
	after func()
}

// ToFollowers implements message.Store.
func (r read) ToFollowers(ctx context.Context, in []message.Range, order message.Order, limit int) ([]message.Stored, error) {
	found, err := r.Store.ToFollowers(ctx, in, order, limit)
	r.after()
	return found, err
}

// TestRecountBesideWriters changes the gap in the middle of a recount. No writer's count is lost.
func TestRecountBesideWriters(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		// write is done after a recount has counted a gap that counts one too many.
		write func(w *world)
		left  bool // whether a rehydration counts it
	}{
		"a view": {write: func(w *world) {
			_, err := w.rehydrator(0).Arrive(w.t.Context(), "ben", w.now.Add(time.Second))
			require.NoError(w.t, err)
		}},
		"a view that raises the horizon": {left: true, write: func(w *world) {
			w.change(func(s *userstate.State) {
				*s = rules().Arrive(*s, w.now.Add(dormantAfter/2), w.now, userstate.Lease{Token: "view", Until: w.now})
			})
		}},
		"a dormant user's login": {left: true, write: func(w *world) {
			w.now = epoch.Add(day)
			_, err := w.rehydrator(0).Arrive(w.t.Context(), "ben", w.now)
			require.NoError(w.t, err)
		}},
		"a message is left to the gap, and counted by a sweep": {left: true, write: func(w *world) {
			w.pass(w.toFollowers(gapBegin.Add(20 * time.Second)))
			require.NoError(w.t, userstate.Owe(w.t.Context(), w.db.Users(), []userstate.State{w.state()}, w.now, false))
			r := w.rehydrator(0)
			require.NoError(w.t, r.Reap(w.t.Context(), w.now))
			require.True(w.t, r.Work(w.t.Context()))
			require.EqualValues(w.t, 7, w.state().Gaps[0].Messages)
		}},
		"deletions of messages that became visible": {write: func(w *world) {
			for range 2 {
				m := w.pass(w.toFollowers(gapBegin.Add(20 * time.Second)))
				require.NoError(w.t, w.inboxes().Delete(w.t.Context(), "ben", m.ID))
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, _, _ := newGap(t, 6)
			w.change(func(s *userstate.State) { s.Gaps[0].Messages++ })
			done := false
			w.messages = read{Store: w.db.Messages(), after: func() {
				if !done {
					done = true
					test.write(w)
				}
			}}
			found, summary := run(t.Context(), t, w.audit(w.db.Inbox()), audit.Request{User: "ben", Repair: true})
			require.True(t, done)
			require.Equal(t, []verdict.Kind{verdict.GapCount}, kindsOf(found))
			require.Equal(t, !test.left, found[0].Repaired, found[0].Note)
			require.Empty(t, summary.Remaining)
			if test.left {
				r := w.rehydrator(0)
				require.NoError(t, r.Reap(t.Context(), w.now.Add(day)))
				r.Work(t.Context())
				_, summary = run(t.Context(), t, w.Service, audit.Request{User: "ben", Repair: true})
				require.Zero(t, summary.Rehydrating)
			}
			w.requireTotal()
			found, _ = run(t.Context(), t, w.Service, audit.Request{User: "ben"})
			require.Empty(t, found)
		})
	}
}

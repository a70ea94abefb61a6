package fanout_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

// damaged returns the work of the only dead letter.
func (w *world) damaged(t *testing.T) event.Damaged {
	t.Helper()
	letters := w.letters(t)
	require.Len(t, letters, 1)
	require.Equal(t, event.ReasonDamaged, letters[0].Reason)
	d, err := event.DecodeDamaged(letters[0].Payload)
	require.NoError(t, err)
	return d
}

// fill gives a user a full bucket and the begin of another, and returns the messages.
func (w *world) fill(t *testing.T, user message.UserID, from int) (all []message.Message) {
	t.Helper()
	for n := range 51 {
		all = append(all, w.store(t, from+n, "filler", user))
	}
	w.publish(t, all...)
	w.drain(t)
	return all
}

// TestDamagedOwner damages what belongs to one of several recipients, in each lane. All others get every message, the counts add up, and
// there is one dead letter however many messages are missed.
func TestDamagedOwner(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(w *world, owner message.UserID){
		"the record of the user": func(w *world, owner message.UserID) { w.Damage.State(owner) },
		"the inbox":              func(w *world, owner message.UserID) { w.Damage.Inbox(owner) },
	} {
		for _, lane := range event.Lanes() {
			t.Run(name+"/"+string(lane), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				users := usersOf(0, 2*rig.BatchOwners+3)
				bad, sound := users[1], append(append([]message.UserID{}, users[0]), users[2:]...)
				w.see(t, users...)
				spoil(w, bad)
				registry := w.measure()
				d := w.deliverer()
				messages := []message.Message{w.store(t, 5, "author", users...), w.store(t, 6, "author", users...), w.store(t, 7, "author", users...)}
				for _, m := range messages {
					w.plan(t, lane, []int{0}, m)
					for held := w.take(t, lane, 0); held != nil; held = w.take(t, lane, 0) {
						require.NoError(t, d.Deliver(t.Context(), held))
					}
					w.requireDone(t, m, len(users)-1, 1)
				}
				w.requireDelivered(t, sound, messages...)
				require.Equal(t, event.NewDamaged(bad, id(5).Time()), w.damaged(t))
				require.Equal(t, []string{fmt.Sprintf(`{lane=%q,reason="damaged"} 3`, lane)}, nonZero(t, registry, "fanmail_skipped_deliveries_total"))

				// A message that was sent earlier is missed later.
				w.opts.Metrics = nil
				early := w.store(t, 1, "author", users...)
				w.plan(t, lane, []int{0}, early)
				w.drain(t)
				w.requireDone(t, early, len(users)-1, 1)
				require.Equal(t, id(1).Time(), w.damaged(t).Since)

				w.Damage.Mend(bad)
				w.requireDelivered(t, []message.UserID{bad})
			})
		}
	}
}

// TestLostBucket loses a bucket below the head of an inbox. The partition goes on. The owner misses only the message that cannot be searched
// for.
func TestLostBucket(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	users := usersOf(0, 3)
	w.see(t, users...)
	filled := w.fill(t, users[1], 100)
	w.Damage.Bucket(users[1], 0)
	late, next := w.store(t, 1, "author", users...), w.store(t, 900, "author", users...)
	w.plan(t, event.Bulk, []int{0}, late, next)
	w.drain(t)
	w.requireDone(t, late, 2, 1)
	w.requireDone(t, next, 3, 0)
	w.requireDelivered(t, []message.UserID{users[0], users[2]}, late, next)
	require.Equal(t, event.NewDamaged(users[1], id(1).Time()), w.damaged(t))
	w.Damage.Mend(users[1])
	w.requireDelivered(t, users[1:2], append(filled, next)...)
}

// TestLetterBeforeRecord fails and kills the worker at the dead letter of a damaged owner. No record counts the owner before the letter is
// there, and a repetition files no second one.
func TestLetterBeforeRecord(t *testing.T) {
	t.Parallel()
	for _, fault := range []rig.Fault{rig.DieBefore, rig.DieAfter, rig.FailBefore, rig.FailAfter} {
		w := newWorld(t)
		users := usersOf(0, 3)
		w.see(t, users...)
		w.Damage.State(users[1])
		m := w.store(t, 1, "author", users...)
		w.plan(t, event.Bulk, []int{0}, m)
		d, held := w.deliverer(), w.take(t, event.Bulk, 0)
		actor := rig.StartAt(t.Context(), fault, "FileDamaged", 0, func(ctx context.Context) error { return d.Deliver(ctx, held) })
		if actor.Died() {
			require.Zero(t, w.scan(t, m, 0).Skipped)
			require.NoError(t, held.Expire(t.Context()))
		}
		w.drain(t)
		w.requireDone(t, m, 2, 1)
		require.Equal(t, users[1], w.damaged(t).User)
	}
}

// TestHeadStartPastDamage has a head start of three recipients, of whom the records of two are damaged.
func TestHeadStartPastDamage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.opts.DirectMax = 3
	users := w.bulk(t)
	m := w.beside(t, 1, users[:3]...)
	w.Damage.State(users[0])
	w.Damage.Inbox(users[1])
	registry := w.measure()
	require.Equal(t, 1, w.routeFirst(t, m))
	require.Equal(t, []message.ID{m.ID}, w.inbox(t, users[2]))
	require.Empty(t, nonZero(t, registry, "fanmail_head_starts_dropped_total"))
	require.Empty(t, w.letters(t), "the scan files them")
	w.opts.Metrics = nil
	w.drain(t)
	w.requireDone(t, m, len(users)-2, 2)
	require.Len(t, w.letters(t), 2)
}

// TestDamageFilesOnce skips two damaged users again and again, each time in another process.
func TestDamageFilesOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	users := append(usersOf(0, 2), usersOf(1, 2)...)
	w.see(t, users...)
	w.Damage.State(users[0])
	w.Damage.State(users[3])
	for n := range 5 {
		w.publish(t, w.store(t, n, "author", users...))
		w.drain(t) // every batch has a deliverer of its own
	}
	require.Len(t, w.letters(t), 2)
	w.requireDelivered(t, users[1:3], message.Message{ID: id(0)}, message.Message{ID: id(1)}, message.Message{ID: id(2)}, message.Message{ID: id(3)}, message.Message{ID: id(4)})
}

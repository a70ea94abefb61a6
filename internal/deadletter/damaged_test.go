package deadletter_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/internal/deadletter"
	"github.com/fanmail/fanmail/internal/rehydrate"
	"github.com/fanmail/fanmail/internal/storetest/buckettest"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

// damagedWorld is a world in which the record of the only recipient is damaged.
func damagedWorld(t *testing.T, wrap func(bus.DeadLetterQueue) bus.DeadLetterQueue) *world {
	t.Helper()
	w := openWorld(t, rig.NewBus(t, rig.Partitions), wrap)
	w.broken = false
	w.Damage.State(w.fan)
	return w
}

// send publishes and delivers a message to the recipient that is sent so long after the epoch.
func (w *world) send(after time.Duration) message.ID {
	w.t.Helper()
	id := message.MinID(rig.Epoch.Add(after))
	id[6], id[8] = 0x70, 0x80
	m := message.Message{ID: id, From: "author", To: []message.UserID{w.fan}}
	_, err := w.Messages.Insert(w.t.Context(), []message.Message{m}, rig.Rules().Timing())
	require.NoError(w.t, err)
	require.NoError(w.t, w.Bus.EmitPublished(w.t.Context(), []event.Published{event.NewPublished(m.Ref())}, true))
	w.deliver()
	return id
}

// rehydrate carries out the rehydrations that are due.
func (w *world) rehydrate() {
	w.t.Helper()
	s := rehydrate.New(w.RehydrateStores(), w.RehydrateOptions(0))
	require.NoError(w.t, s.Reap(w.t.Context(), w.Clock.Now().Add(time.Second)))
	for s.Work(w.t.Context()) {
	}
}

func (w *world) shown() []message.ID {
	w.t.Helper()
	shown, _ := w.ReadInbox(w.t.Context(), w.t, w.fan, 50)
	return shown
}

func (w *world) state() userstate.State {
	w.t.Helper()
	st, err := userstate.Get(w.t.Context(), w.Users, w.fan)
	require.NoError(w.t, err)
	return st
}

// TestRedriveOfADamagedUser redrives the only letter of a user who has missed three messages. The second arrives after the first, and was sent
// before it.
func TestRedriveOfADamagedUser(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(w *world){
		"the record": func(w *world) { w.Damage.State(w.fan) },
		"the inbox":  func(w *world) { w.Damage.Inbox(w.fan) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := damagedWorld(t, same)
			w.Damage.Mend(w.fan)
			before := w.send(0)
			spoil(w)
			second, first, third := w.send(2*100*time.Millisecond), w.send(100*time.Millisecond), w.send(3*100*time.Millisecond)
			letters := w.letters()
			require.Len(t, letters, 1)
			require.ErrorIs(t, w.service.Redrive(t.Context(), letters[0].ID), deadletter.ErrDamaged)
			require.Equal(t, letters, w.letters(), "it stays")

			w.Damage.Mend(w.fan)
			fourth := w.send(4 * 100 * time.Millisecond)
			require.NoError(t, w.service.Redrive(t.Context(), letters[0].ID))
			require.Empty(t, w.letters())
			require.Equal(t, first.Time().Add(-rig.ClockTolerance-rig.Slack), w.state().Sweep.From)
			require.ErrorIs(t, w.service.Redrive(t.Context(), letters[0].ID), deadletter.ErrNotFound)
			w.rehydrate()
			require.Equal(t, []message.ID{fourth, third, second, first, before}, w.shown())
			require.False(t, w.state().Rehydrating())
		})
	}
}

// TestRedriveRecordsTheDebtFirst crashes before the letter is removed, and after it. What is not synced is lost.
func TestRedriveRecordsTheDebtFirst(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(*failing){
		"before": func(f *failing) { f.drop = errors.New("no answer") },
		"after":  func(*failing) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var queue *failing
			w := damagedWorld(t, func(inner bus.DeadLetterQueue) bus.DeadLetterQueue {
				queue = &failing{DeadLetterQueue: inner}
				return queue
			})
			missed := []message.ID{w.send(2 * 100 * time.Millisecond), w.send(100 * time.Millisecond)}
			letters := w.letters()
			require.Len(t, letters, 1)
			w.Damage.Mend(w.fan)
			fail(queue)
			err := w.service.Redrive(t.Context(), letters[0].ID)
			require.Equal(t, name == "before", errors.Is(err, deadletter.ErrBus))

			crashed, err := w.Crash(t.Context(), 0, 1)
			require.NoError(t, err)
			w.Rig = crashed
			w.rehydrate()
			require.Equal(t, missed, w.shown(), "without the letter, and with it")
			if name == "before" {
				w.service = newService(w.Rig, w.Bus)
				require.NoError(t, w.service.Redrive(t.Context(), letters[0].ID))
				w.rehydrate()
				require.Equal(t, missed, w.shown(), "each once")
			}
		})
	}
}

// TestRedriveWhileMoreIsMissed has a redrive remove a letter that a batch has replaced meanwhile, because it missed an earlier message. The
// new letter stays.
func TestRedriveWhileMoreIsMissed(t *testing.T) {
	t.Parallel()
	w := damagedWorld(t, same)
	second := w.send(2 * 100 * time.Millisecond)
	redriven := w.letters()[0].ID
	first := w.send(100 * time.Millisecond)
	require.NoError(t, w.Bus.Drop(t.Context(), redriven), "the last step of a redrive that began before")
	letters := w.letters()
	require.Len(t, letters, 1)
	w.Damage.Mend(w.fan)
	require.NoError(t, w.service.Redrive(t.Context(), letters[0].ID))
	w.rehydrate()
	require.Equal(t, []message.ID{second, first}, w.shown())
}

// TestRedriveTakesTheSweepAway redrives while a worker sweeps, which may have read already.
func TestRedriveTakesTheSweepAway(t *testing.T) {
	t.Parallel()
	w := damagedWorld(t, same)
	missed := w.send(100 * time.Millisecond)
	w.Damage.Mend(w.fan)
	was := w.state()
	sweeping := was
	sweeping.Sweep = &userstate.Sweep{From: rig.Epoch.Add(-time.Hour)}
	sweeping.Lease = userstate.Lease{Token: "other/1", Until: w.Clock.Now().Add(rig.Lease), Since: w.Clock.Now()}
	stepped, err := w.Users.Step(t.Context(), []userstate.Step{{From: was, To: sweeping}})
	require.NoError(t, err)
	require.True(t, stepped[0].Applied)
	require.NoError(t, w.service.Redrive(t.Context(), w.letters()[0].ID))
	require.Empty(t, w.state().Lease.Token)
	require.Equal(t, rig.Epoch.Add(-time.Hour), w.state().Sweep.From)
	w.rehydrate()
	require.Equal(t, []message.ID{missed}, w.shown())
}

// TestRedriveDuringARehydration redrives for a user who is being rehydrated: a mark is set, and a gap was decided. The sweep then appends what was
// missed before the mark, and counts what was missed in the gap.
func TestRedriveDuringARehydration(t *testing.T) {
	t.Parallel()
	w := damagedWorld(t, same)
	inGap, missed := w.send(100*time.Millisecond), w.send(300*time.Millisecond)
	w.Damage.Mend(w.fan)
	was := w.state()
	marked := was
	marked.Gaps = []userstate.Gap{{After: rig.Epoch, Before: rig.Epoch.Add(200 * time.Millisecond), Messages: 0}}
	marked.Mark = &userstate.Mark{From: rig.Epoch.Add(time.Minute), Bounded: true}
	marked.Lease = userstate.Lease{Token: "other/1", Until: w.Clock.Now().Add(rig.Lease), Since: w.Clock.Now()}
	stepped, err := w.Users.Step(t.Context(), []userstate.Step{{From: was, To: marked}})
	require.NoError(t, err)
	require.True(t, stepped[0].Applied)
	require.NoError(t, w.service.Redrive(t.Context(), w.letters()[0].ID))
	w.rehydrate()
	require.False(t, w.state().Rehydrating())
	require.EqualValues(t, 1, w.state().Gaps[0].Messages)
	buckets, err := bucket.ReadSection(t.Context(), w.Inbox, bucket.Section{Owner: w.fan, High: 9}, bucket.AllFields)
	require.NoError(t, err)
	require.Equal(t, []message.ID{missed}, buckettest.IDs(buckets[0].Entries))
	require.Equal(t, []message.ID{missed, inGap}, w.shown())
}

// TestRedriveOfAUserWithoutARecord redrives after an operator has removed the record. The user counts as never seen, and gets everything on
// return.
func TestRedriveOfAUserWithoutARecord(t *testing.T) {
	t.Parallel()
	w := openWorld(t, rig.NewBus(t, rig.Partitions), same)
	w.broken, w.fan = false, "stranger"
	_, err := w.Bus.FileDamaged(t.Context(), event.NewDamaged("stranger", rig.Epoch), "short")
	require.NoError(t, err)
	require.NoError(t, w.service.Redrive(t.Context(), w.letters()[0].ID))
	require.Empty(t, w.letters())
	require.False(t, w.state().Known())
}

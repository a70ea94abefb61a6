package deadletter_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/internal/deadletter"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

// fileTwin files another letter about the task of the first one.
func (w *world) fileTwin() (first, second uint64) {
	w.t.Helper()
	require.NoError(w.t, w.Bus.DeadLetter(w.t.Context(), w.letters()[0].DeadLetter))
	letters := w.letters()
	require.Len(w.t, letters, 2)
	return letters[0].ID, letters[1].ID
}

// requireGivenUp requires that the message has ended because its scan was given up.
func (w *world) requireGivenUp() {
	w.t.Helper()
	require.Equal(w.t, message.Ending{GivenUp: 1}, w.ending())
	unfinished, err := w.Messages.Unfinished(w.t.Context(), message.ID{}, message.MaxID, 10)
	require.NoError(w.t, err)
	require.Empty(w.t, unfinished)
}

func TestDropFinishesTheMessage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, same)
	w.broken = false
	require.NoError(t, w.service.Drop(t.Context(), w.letters()[0].ID))
	require.Empty(t, w.letters())
	w.requireGivenUp()
	w.deliver()
	shown, _ := w.ReadInbox(t.Context(), t, w.fan, 50)
	require.Empty(t, shown)
}

// TestDropGivesUpFirst crashes before the letter is removed. The scan is given up then, so no dead scan lacks a letter.
func TestDropGivesUpFirst(t *testing.T) {
	t.Parallel()
	var queue *failing
	w := newWorld(t, func(inner bus.DeadLetterQueue) bus.DeadLetterQueue {
		queue = &failing{DeadLetterQueue: inner, drop: errors.New("no answer")}
		return queue
	})
	letters := w.letters()
	require.ErrorIs(t, w.service.Drop(t.Context(), letters[0].ID), deadletter.ErrBus)
	crashed, err := w.Crash(t.Context(), 0, 1)
	require.NoError(t, err)
	w.Rig, w.service = crashed, newService(crashed, crashed.Bus)
	w.requireGivenUp()
	require.Equal(t, letters, w.letters())
	require.NoError(t, w.service.Drop(t.Context(), letters[0].ID))
	require.Empty(t, w.letters())
	w.requireGivenUp()
}

// TestRedriveOfATaskThatWasGivenUp has two letters about one task. No letter revives a scan that was given up.
func TestRedriveOfATaskThatWasGivenUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, same)
	w.broken = false
	first, second := w.fileTwin()
	require.NoError(t, w.service.Drop(t.Context(), first))
	require.ErrorIs(t, w.service.Redrive(t.Context(), second), deadletter.ErrGivenUp)
	require.Len(t, w.letters(), 1, "it stays")
	_, tasks, err := w.Bus.Queued(t.Context())
	require.NoError(t, err)
	require.Empty(t, tasks)
	require.NoError(t, w.service.Drop(t.Context(), second))
	w.requireGivenUp()
}

// TestDropOfARedrivenTask drops a letter while the task of its twin is under way.
func TestDropOfARedrivenTask(t *testing.T) {
	t.Parallel()
	w := newWorld(t, same)
	w.broken = false
	first, second := w.fileTwin()
	require.NoError(t, w.service.Redrive(t.Context(), first))
	require.NoError(t, w.service.Drop(t.Context(), second))
	w.deliver()
	w.requireDelivered()
}

// expire expires letters up to a mark, and requires how many go.
func (w *world) expire(lowWater message.ID, want int) {
	w.t.Helper()
	n, err := w.service.Expire(w.t.Context(), lowWater)
	require.NoError(w.t, err)
	require.Equal(w.t, want, n)
}

// file files a letter about an event.
func (w *world) file(reason string, work interface{ Encode() ([]byte, error) }) {
	w.t.Helper()
	payload, err := work.Encode()
	require.NoError(w.t, err)
	require.NoError(w.t, w.Bus.DeadLetter(w.t.Context(), event.DeadLetter{
		Version: event.Version, Reason: reason, Subject: "fanmail.v1.published", Payload: payload,
	}))
}

func TestExpire(t *testing.T) {
	t.Parallel()
	w := newWorld(t, same)
	w.broken = false
	ref := w.message.Ref()
	w.file("corrupt", event.NewPublished(ref))
	w.file("corrupt", event.NewPublished(message.Ref{From: "author", ID: ref.ID.Next()}))
	w.file(event.ReasonPanic, event.Login{User: "fan"})
	_, err := w.Bus.FileDamaged(t.Context(), event.NewDamaged("fan", rig.Epoch), "short")
	require.NoError(t, err)
	require.NoError(t, w.Bus.DeadLetter(t.Context(), event.DeadLetter{Version: event.Version, Reason: "malformed", Subject: "x", Payload: []byte("\xff")}))
	letters := w.letters()
	require.Len(t, letters, 6)

	w.expire(message.ID{}, 0)
	w.expire(message.LastBefore(ref.ID.Time()), 0)
	require.Equal(t, letters, w.letters())
	w.expire(ref.ID, 2)
	require.Equal(t, letters[2:], w.letters())
	w.requireGivenUp()
	w.expire(ref.ID, 0)
}

// TestExpireOfADamagedUser has a user miss messages for three days. The letter stays until all of them have expired. Then what is missed is filed again.
func TestExpireOfADamagedUser(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	w := damagedWorld(t, same)
	for range 3 {
		w.Clock.Advance(day)
		w.send(w.Clock.Now().Sub(rig.Epoch))
	}
	letters := w.letters()
	require.Len(t, letters, 1)
	last := w.Clock.Now()
	w.expire(message.LastBefore(last), 0)
	require.Equal(t, letters, w.letters())
	w.expire(message.LastBefore(last.Add(day)), 1)
	require.Empty(t, w.letters())
	w.Clock.Advance(2 * day)
	w.send(w.Clock.Now().Sub(rig.Epoch))
	w.expire(message.LastBefore(last.Add(day)), 0)
	require.Len(t, w.letters(), 1)
}

// TestExpireReadsAllLetters has many pages of letters.
func TestExpireReadsAllLetters(t *testing.T) {
	t.Parallel()
	w := openWorld(t, rig.NewBus(t, rig.Partitions), same)
	const letters = 10_000
	for n := range letters {
		id := message.MinID(rig.Epoch.Add(time.Duration(n) * time.Millisecond))
		id[6], id[8] = 0x70, 0x80
		w.file("corrupt", event.NewPublished(message.Ref{From: "author", ID: id}))
	}
	w.expire(message.LastBefore(rig.Epoch.Add(200*time.Millisecond)), 200)
	w.expire(message.MaxID, letters-200)
	require.Empty(t, w.letters())
}

// TestExpireLeavesWhatIsUnderWay leaves the letter of a scan that is open, until it is dead or done.
func TestExpireLeavesWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	w := newWorld(t, same)
	first, _ := w.fileTwin()
	require.NoError(t, w.service.Redrive(t.Context(), first))
	w.expire(message.MaxID, 0)
	w.deliver() // it fails again
	require.Len(t, w.letters(), 2)
	w.expire(message.MaxID, 2)
	w.requireGivenUp()
}

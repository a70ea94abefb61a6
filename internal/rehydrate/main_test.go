package rehydrate_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/fanout"
	"github.com/fanmail/fanmail/internal/rehydrate"
	"github.com/fanmail/fanmail/internal/storetest"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/leaktest"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// world is a rig in which ann and her twin follow an author. Ann was seen at the epoch, her twin is always active.
type world struct {
	*rig.Rig
	twins rig.Twins
	sent  int // counts messages
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldOn(t, rig.Embedded{})
}

func newWorldOn(t *testing.T, backend rig.Backend) *world {
	t.Helper()
	r, err := rig.OpenOn(t.Context(), backend, rig.NewClock(), rig.NewBus(t, rig.Partitions), nil)
	require.NoError(t, err)
	w := &world{Rig: r, twins: *rig.NewTwins("ann", "twin")}
	t.Cleanup(func() { require.NoError(t, w.Close()) })
	_, err = w.Edges.Follow(t.Context(), []follow.Pair{{Follower: "ann", Followee: "author"}, {Follower: "twin", Followee: "author"}}, rig.Epoch.Add(-time.Hour))
	require.NoError(t, err)
	require.NoError(t, storetest.See(t.Context(), w.Users, rig.Epoch, rig.DormantAfter, "ann"))
	require.NoError(t, storetest.See(t.Context(), w.Users, rig.Epoch.AddDate(10, 0, 0), rig.DormantAfter, "twin"))
	return w
}

// newDormantWorld returns a world in which ann has been dormant for a minute, and has missed a message.
func newDormantWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.Clock.Advance(rig.DormantAfter + time.Minute)
	w.send(t)
	return w
}

func (w *world) now() time.Time { return w.Clock.Now() }

// store stores a message that was sent at the given time, to the author's followers or those named.
func (w *world) store(t *testing.T, sent time.Time, to ...message.UserID) message.Message {
	t.Helper()
	return w.storeFrom(t, "author", sent, to...)
}

// storeFrom is store for a message by another author.
func (w *world) storeFrom(t *testing.T, author message.UserID, sent time.Time, to ...message.UserID) message.Message {
	t.Helper()
	w.sent++
	m := message.Message{ID: message.MinID(sent), From: author, To: to, Body: fmt.Sprintf("message %d", w.sent)}
	m.ID[6], m.ID[8], m.ID[15] = 0x70, 0x80, byte(w.sent)
	if len(to) == 0 {
		m.Audience = message.AudienceFollowers
	}
	_, err := w.Messages.Insert(t.Context(), []message.Message{m}, rig.Rules().Timing())
	require.NoError(t, err)
	return m
}

// fanOut fans messages out that are stored.
func (w *world) fanOut(t *testing.T, messages ...message.Message) {
	t.Helper()
	for _, m := range messages {
		require.NoError(t, w.Bus.EmitPublished(t.Context(), []event.Published{event.NewPublished(m.Ref())}, true))
	}
	router := fanout.NewRouter(w.Stores(), w.Bus, w.FanoutOptions(0))
	for {
		received, err := w.Bus.TryFetch(t.Context(), 10)
		require.NoError(t, err)
		if len(received) == 0 {
			break
		}
		require.NoError(t, router.Route(t.Context(), received))
	}
	for _, lane := range event.Lanes() {
		for p := range rig.Partitions {
			for held := w.take(t, lane, p); held != nil; held = w.take(t, lane, p) {
				require.NoError(t, w.deliverer().Deliver(t.Context(), held))
			}
		}
	}
}

func (w *world) deliverer() *fanout.Deliverer {
	return fanout.NewDeliverer(w.Stores(), w.Bus, w.FanoutOptions(0))
}

func (w *world) take(t *testing.T, lane event.Lane, p int) *rig.Held {
	t.Helper()
	held, err := w.Bus.TryTake(t.Context(), lane, p)
	require.NoError(t, err)
	return held
}

// send stores messages that are sent now, and fans them out. The next ones are sent later.
func (w *world) send(t *testing.T) message.Message {
	t.Helper()
	m := w.store(t, w.now())
	w.fanOut(t, m)
	w.Clock.Advance(time.Millisecond)
	return m
}

// sendSome sends so many messages, and fans them out together.
func (w *world) sendSome(t *testing.T, n int) {
	t.Helper()
	messages := make([]message.Message, n)
	for i := range messages {
		messages[i] = w.store(t, w.now())
		w.Clock.Advance(time.Millisecond)
	}
	w.fanOut(t, messages...)
}

// login lets ann look, and does not wait for what comes of it.
func login(ctx context.Context, w *world, s *rehydrate.Service) error {
	_, err := s.Login(ctx, "ann", w.now(), 0)
	return err
}

func (w *world) login(t *testing.T, s *rehydrate.Service) {
	t.Helper()
	require.NoError(t, login(t.Context(), w, s))
}

// work starts an attempt at the rehydration that waits, which the fault befalls at the nth operation of that name.
func (w *world) work(t *testing.T, s *rehydrate.Service, fault rig.Fault, operation string, after int) *rig.Actor {
	t.Helper()
	a := rig.StartAt(t.Context(), fault, operation, after, func(ctx context.Context) error {
		require.True(t, s.Work(ctx), "nothing waits")
		return nil
	})
	if fault != rig.None {
		require.True(t, a.Died() || !a.Finished() || fault == rig.FailBefore || fault == rig.FailAfter, "the fault has befallen nobody: %v", a.Trace())
	}
	return a
}

// rest lets leases die and their rehydrations be taken over until nothing is due, and demands that ann has missed nothing.
func (w *world) rest(t *testing.T, s *rehydrate.Service) {
	t.Helper()
	for worked := true; worked; {
		w.Clock.Advance(rig.Lease + time.Second)
		require.NoError(t, s.Reap(t.Context(), w.now()))
		worked = false
		for s.Work(t.Context()) {
			worked = true
		}
	}
	for _, limit := range []int{3, 50} {
		w.RequireAlike(t.Context(), t, w.twins, limit)
	}
}

// The changes of state that an attempt makes, in their order, as the faults of work count them.
const (
	changes = "StepState"
	bound   = iota - 1
	settle
	finish
)

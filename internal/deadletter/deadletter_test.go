package deadletter_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/internal/deadletter"
	"github.com/fanmail/fanmail/internal/fanout"
	"github.com/fanmail/fanmail/internal/partition"
	"github.com/fanmail/fanmail/internal/storetest"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/leaktest"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// world is a fan-out whose reads of followers fail permanently while broken is set.
type world struct {
	*rig.Rig
	t       *testing.T
	service *deadletter.Service
	broken  bool
	message message.Message
	fan     message.UserID
}

// unreadable is a store whose followers cannot be read while the world is broken.
type unreadable struct {
	follow.Store
	w *world
}

func (u unreadable) Followers(ctx context.Context, followee message.Source, p int, after message.UserID, limit int) ([]follow.Edge, error) {
	if u.w.broken {
		return nil, message.ErrCorrupt
	}
	return u.Store.Followers(ctx, followee, p, after, limit)
}

// newWorld returns a world in which the task of a message to one follower is a dead letter.
func newWorld(t *testing.T, wrap func(bus.DeadLetterQueue) bus.DeadLetterQueue) *world {
	t.Helper()
	w := openWorld(t, rig.NewBus(t, rig.Partitions), wrap)
	_, err := w.Edges.Follow(t.Context(), []follow.Pair{{Follower: w.fan, Followee: "author"}}, rig.Epoch)
	require.NoError(t, err)
	w.insert(message.Message{From: "author", Audience: message.AudienceFollowers})
	p := partition.Of(w.fan, rig.Partitions)
	_, err = w.Progress.Plan(t.Context(), w.message.ID, "medium", []int{p}, w.Clock.Now())
	require.NoError(t, err)
	task := event.Task{Version: event.Version, ID: w.message.ID, From: "author", Lane: event.Bulk, Partition: p}
	require.NoError(t, w.Bus.EmitTasks(t.Context(), []event.Task{task}))
	w.deliver()
	return w
}

// openWorld returns a broken world without messages.
func openWorld(t *testing.T, b *rig.Bus, wrap func(bus.DeadLetterQueue) bus.DeadLetterQueue) *world {
	t.Helper()
	r, err := rig.Open(t.Context(), rig.NewClock(), b, nil)
	require.NoError(t, err)
	w := &world{Rig: r, t: t, broken: true, fan: "fan"}
	t.Cleanup(func() { require.NoError(t, w.Close()) })
	w.service = newService(r, wrap(r.Bus))
	require.NoError(t, storetest.See(t.Context(), r.Users, r.Clock.Now(), rig.DormantAfter, w.fan))
	return w
}

// insert stores the world's message.
func (w *world) insert(m message.Message) {
	w.t.Helper()
	m.ID = message.MinID(rig.Epoch.Add(time.Second))
	m.ID[6], m.ID[8] = 0x70, 0x80
	w.message = m
	_, err := w.Messages.Insert(w.t.Context(), []message.Message{m}, rig.Rules().Timing())
	require.NoError(w.t, err)
}

func newService(r *rig.Rig, queue bus.DeadLetterQueue) *deadletter.Service {
	return deadletter.New(deadletter.Parts{
		Bus: queue, Progress: r.Progress, Messages: r.Messages, Users: r.Users, Buckets: r.Inbox, Round: r.Stores().Round,
	}, deadletter.Options{Rules: rig.Rules, Logger: zerolog.Nop(), Now: r.Clock.Now})
}

// deliver routes and delivers all waiting events and tasks.
func (w *world) deliver() {
	w.t.Helper()
	stores := w.Stores()
	stores.Edges, stores.Messages = unreadable{stores.Edges, w}, unreadableMessages{stores.Messages, w}
	opts := w.FanoutOptions(0)
	opts.DirectMax = 100
	received, err := w.Bus.TryFetch(w.t.Context(), 10)
	require.NoError(w.t, err)
	if len(received) > 0 {
		router := fanout.NewRouter(stores, w.Bus, opts)
		require.NoError(w.t, router.Route(w.t.Context(), received))
	}
	for _, lane := range event.Lanes() {
		held, err := w.Bus.TryTake(w.t.Context(), lane, partition.Of(w.fan, rig.Partitions))
		for ; err == nil && held != nil; held, err = w.Bus.TryTake(w.t.Context(), lane, partition.Of(w.fan, rig.Partitions)) {
			require.NoError(w.t, fanout.NewDeliverer(stores, w.Bus, opts).Deliver(w.t.Context(), held))
		}
		require.NoError(w.t, err)
	}
}

func (w *world) sweep() {
	w.t.Helper()
	w.Clock.Advance(2 * rig.ResumeAfter)
	_, err := fanout.NewResumer(w.Stores(), w.Bus, w.FanoutOptions(0)).Resume(w.t.Context())
	require.NoError(w.t, err)
}

func (w *world) letters() []event.Filed {
	w.t.Helper()
	letters, err := w.service.List(w.t.Context(), 0, 10)
	require.NoError(w.t, err)
	return letters
}

// requireDelivered requires that the follower has the message once, and that the fan-out is done.
func (w *world) requireDelivered() {
	w.t.Helper()
	shown, _ := w.ReadInbox(w.t.Context(), w.t, w.fan, 50)
	require.Equal(w.t, []message.ID{w.message.ID}, shown)
	require.Equal(w.t, message.Ending{Delivered: 1}, w.ending())
	require.Empty(w.t, w.letters())
}

// ending requires that the message has ended, and returns its counts.
func (w *world) ending() message.Ending {
	w.t.Helper()
	endings, err := w.Messages.Endings(w.t.Context(), []message.Ref{w.message.Ref()})
	require.NoError(w.t, err)
	require.True(w.t, endings[0].Concluded)
	return message.Ending{Delivered: endings[0].Delivered, Skipped: endings[0].Skipped, GivenUp: endings[0].GivenUp}
}

func same(bus bus.DeadLetterQueue) bus.DeadLetterQueue { return bus }

func TestRedriveGoesOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, same)
	letters := w.letters()
	require.Len(t, letters, 1)
	require.Equal(t, "corrupt", letters[0].Reason)
	require.Equal(t, 1, letters[0].Attempts)
	got, err := w.service.Get(t.Context(), letters[0].ID)
	require.NoError(t, err)
	require.Equal(t, letters[0], got)

	require.NoError(t, w.service.Redrive(t.Context(), letters[0].ID))
	w.deliver()
	again := w.letters()
	require.Len(t, again, 1, "work that fails again becomes another letter")
	require.Greater(t, again[0].ID, letters[0].ID)
	require.ErrorIs(t, w.service.Redrive(t.Context(), letters[0].ID), deadletter.ErrNotFound)

	w.broken = false
	require.NoError(t, w.service.Redrive(t.Context(), again[0].ID))
	w.deliver()
	w.requireDelivered()
}

// unreadableMessages is a store whose messages are corrupt while the world is broken. Only fan-out reads many at a time.
type unreadableMessages struct {
	message.Store
	w *world
}

func (u unreadableMessages) GetMany(ctx context.Context, refs []message.Ref) ([]message.Found, error) {
	found, err := u.Store.GetMany(ctx, refs)
	for i := range found {
		if u.w.broken {
			found[i] = message.Found{Err: message.ErrCorrupt}
		}
	}
	return found, err
}

// TestRedriveOfACutLetter redrives the letter of a task that fits into the bus, while its letter does not.
func TestRedriveOfACutLetter(t *testing.T) {
	t.Parallel()
	w := openWorld(t, rig.NewNarrowBus(t, rig.Partitions, 8<<10), same)
	w.broken = false
	w.insert(message.Message{From: "author", To: []message.UserID{w.fan}})
	task := event.Task{Version: event.Version, ID: w.message.ID, From: "author", Lane: event.Bulk, Partition: partition.Of(w.fan, rig.Partitions)}
	payload, err := task.Encode()
	require.NoError(t, err)
	require.NoError(t, w.Bus.DeadLetter(t.Context(), event.DeadLetter{
		Version: event.Version, Reason: "corrupt", Subject: fmt.Sprintf("fanmail.v1.fanout.bulk.%d", task.Partition),
		Payload: bytes.Replace(payload, []byte("{"), []byte("{"+strings.Repeat(" ", 7000)), 1),
	}))
	letters := w.letters()
	require.Len(t, letters, 1)
	require.Greater(t, letters[0].Cut, len(letters[0].Payload))
	require.NoError(t, w.service.Redrive(t.Context(), letters[0].ID))
	published, tasks, err := w.Bus.Queued(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, published, "the router finds the recipients")
	require.Empty(t, tasks)
	w.deliver()
	w.requireDelivered()
}

// TestRedriveOfAPartOfUnknownWork files a letter of work that is larger than the bus accepts and names no message.
func TestRedriveOfAPartOfUnknownWork(t *testing.T) {
	t.Parallel()
	w := openWorld(t, rig.NewNarrowBus(t, rig.Partitions, 8<<10), same)
	require.NoError(t, w.Bus.DeadLetter(t.Context(), event.DeadLetter{
		Version: event.Version, Reason: "malformed", Subject: "fanmail.v1.fanout.bulk.0", Payload: bytes.Repeat([]byte{0xff}, 8000),
	}))
	letters := w.letters()
	require.Len(t, letters, 1)
	require.Equal(t, 8000, letters[0].Cut)
	require.ErrorIs(t, w.service.Redrive(t.Context(), letters[0].ID), deadletter.ErrUnreadable)
	require.Equal(t, letters, w.letters())
}

// TestRedriveOfWhatCannotBeRead files letters whose work would fail again at once.
func TestRedriveOfWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, same)
	task := w.letters()[0]
	for _, letter := range []event.DeadLetter{
		{Reason: event.ReasonMalformed, Subject: "fanmail.v1.fanout.bulk.0", Payload: []byte("{")},
		{Reason: event.ReasonMalformed, Subject: "fanmail.v1.login", Payload: []byte(`{"v":1}`)},
		{Reason: event.ReasonMalformed, Subject: task.Subject, Payload: task.Payload}, // a partition that does not exist, for example
		{Reason: event.ReasonNewer, Subject: "fanmail.v1.published", Payload: []byte(`{"v":2}`)},
	} {
		letter.Version = event.Version
		require.NoError(t, w.Bus.DeadLetter(t.Context(), letter))
	}
	letters := w.letters()
	require.Len(t, letters, 5)
	for _, letter := range letters[1:] {
		require.ErrorIs(t, w.service.Redrive(t.Context(), letter.ID), deadletter.ErrUnreadable)
	}
	require.Equal(t, letters, w.letters())
}

// failing is a bus whose Emit and Drop return the given errors.
type failing struct {
	bus.DeadLetterQueue
	emit, drop error
}

func (f *failing) Emit(ctx context.Context, letter event.DeadLetter) error {
	return errors.Join(f.DeadLetterQueue.Emit(ctx, letter), f.emit)
}

func (f *failing) Drop(ctx context.Context, id uint64) error {
	if f.drop != nil {
		return f.drop
	}
	return f.DeadLetterQueue.Drop(ctx, id)
}

// TestRedriveThatIsCutOff redrives a letter and crashes before the letter is removed, once or twice. Then it redrives again.
func TestRedriveThatIsCutOff(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]func(*failing){
		"the task was emitted and the answer lost": func(f *failing) { f.emit = errors.New("no answer") },
		"the letter was not removed":               func(f *failing) { f.drop = errors.New("no answer") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var failed *failing
			w := newWorld(t, func(inner bus.DeadLetterQueue) bus.DeadLetterQueue {
				failed = &failing{DeadLetterQueue: inner}
				return failed
			})
			w.broken = false
			letter := w.letters()[0].ID
			cut(failed)
			for range 2 {
				require.ErrorIs(t, w.service.Redrive(t.Context(), letter), deadletter.ErrBus)
			}
			w.deliver()
			*failed = failing{DeadLetterQueue: failed.DeadLetterQueue}
			require.NoError(t, w.service.Redrive(t.Context(), letter))
			w.deliver()
			w.requireDelivered()
		})
	}
}

// TestRevivedIsSwept loses the task of a revived scan. The sweep finds the scan.
func TestRevivedIsSwept(t *testing.T) {
	t.Parallel()
	w := newWorld(t, same)
	w.broken = false
	require.NoError(t, w.service.Redrive(t.Context(), w.letters()[0].ID))
	require.NoError(t, w.Bus.Lose(t.Context(), "FANMAIL_FANOUT", 0))
	w.sweep()
	w.deliver()
	w.requireDelivered()
}

func TestDropIsForGood(t *testing.T) {
	t.Parallel()
	w := newWorld(t, same)
	w.broken = false
	letter := w.letters()[0].ID
	require.NoError(t, w.service.Drop(t.Context(), letter))
	require.ErrorIs(t, w.service.Drop(t.Context(), letter), deadletter.ErrNotFound)
	_, err := w.service.Get(t.Context(), letter)
	require.ErrorIs(t, err, deadletter.ErrNotFound)
	w.sweep()
	w.deliver()
	shown, _ := w.ReadInbox(t.Context(), t, w.fan, 50)
	require.Empty(t, shown)
}

// TestWhatNobodyTakes files letters whose work has no consumer or is not an event. They can only be dropped.
func TestWhatNobodyTakes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, same)
	for _, subject := range []string{"fanmail.v1.fanout.bulk.2", "fanmail.v1.fanout.slow.0", "fanmail.v1.fanout.bulk", "fanmail.v2.published", "x"} {
		require.NoError(t, w.Bus.DeadLetter(t.Context(), event.DeadLetter{Version: event.Version, Reason: "malformed", Subject: subject, Payload: []byte("\xff")}))
	}
	letters := w.letters()
	require.Len(t, letters, 6)
	for _, letter := range letters[1:] {
		require.ErrorIs(t, w.service.Redrive(t.Context(), letter.ID), deadletter.ErrNoConsumer)
		require.NoError(t, w.service.Drop(t.Context(), letter.ID))
	}
	require.Equal(t, letters[:1], w.letters())
	page, err := w.service.List(t.Context(), letters[0].ID, 10)
	require.NoError(t, err)
	require.Empty(t, page)
}

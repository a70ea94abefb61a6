// Package bustest holds every implementation of bus.Bus to the contract in package bus.
package bustest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
)

// Partitions is the number of partitions that the bus of a Harness has.
const Partitions = 2

// patience is how long a call may take. It passes only if the bus is broken.
const patience = 2 * time.Minute

// Harness is a new, empty bus. Its leases last longer than a test.
type Harness struct {
	Bus bus.Bus
	// Login publishes a login as a program outside Fanmail does. It returns when the login is in the stream.
	Login func(ctx context.Context, payload []byte) error
}

// Run holds a bus to its contract. Every test opens a bus of its own; open registers its closing with t.Cleanup.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	t.Helper()
	for name, test := range map[string]func(*suite){
		"FetchPublished/in order and at most limit":            (*suite).fetchInOrder,
		"FetchPublished/again after Release":                   (*suite).fetchReleased,
		"FetchPublished/not before the time given to Release":  (*suite).fetchReleasedLater,
		"FetchPublished/ends with its context":                 (*suite).fetchEnds,
		"EmitPublished/a repeat only if it is fresh":           (*suite).emitPublishedRepeats,
		"EmitTasks/refuses a place that does not exist":        (*suite).emitTasksNowhere,
		"Take/one holder of each lane and partition":           (*suite).takeExcludes,
		"Take/ends with its context":                           (*suite).takeEnds,
		"Take/leaves nothing held when its context ends":       (*suite).takeCancelled,
		"Take/refuses a place that does not exist":             (*suite).takeNowhere,
		"Held/Waiting returns the tasks behind, and no others": (*suite).waiting,
		"Held/Remove ignores tasks that are gone":              (*suite).removeGone,
		"Held/Release hands the task to the next caller":       (*suite).release,
		"Held/Done of a task that another process has done":    (*suite).doneTwice,
		"FetchLogins/in order, whatever the payload":           (*suite).fetchLogins,
		"FetchLogins/ends with its context":                    (*suite).fetchLoginsEnds,
		"DeadLetters/in order, by pages":                       (*suite).deadLetters,
		"DeadLetters/Drop of a letter that is gone":            (*suite).dropGone,
		"DeadLetters/Emit puts the work back":                  (*suite).emitAgain,
		"DeadLetters/Consumed":                                 (*suite).consumed,
		"Backlog/counts what is there, taken or not":           (*suite).backlog,
		"Trace/travels with every event":                       (*suite).traces,
		"Healthy":                                              (*suite).healthy,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			t.Cleanup(cancel)
			test(&suite{Harness: open(t), t: t, ctx: func() context.Context { return ctx }})
		})
	}
}

// suite is one test on one bus.
type suite struct {
	Harness
	t   *testing.T
	ctx func() context.Context
}

func id(n int) message.ID {
	id := message.MinID(time.UnixMilli(1_700_000_000_000 + int64(n)))
	id[6], id[8] = 0x70, 0x80
	return id
}

func ids(from, to int) []message.ID {
	var all []message.ID
	for n := from; n < to; n++ {
		all = append(all, id(n))
	}
	return all
}

func tasks(lane event.Lane, partition, from, to int) []event.Task {
	var all []event.Task
	for _, id := range ids(from, to) {
		all = append(all, event.Task{Version: event.Version, ID: id, From: "author", Lane: lane, Partition: partition})
	}
	return all
}

func (s *suite) emitTasks(lane event.Lane, partition, from, to int) {
	require.NoError(s.t, s.Bus.EmitTasks(s.ctx(), tasks(lane, partition, from, to)))
}

func (s *suite) take(lane event.Lane, partition int) bus.Held {
	held, err := s.Bus.Take(s.ctx(), lane, partition)
	require.NoError(s.t, err)
	return held
}

// behind returns the messages of the tasks behind a held one.
func (s *suite) behind(held bus.Held, limit int) []message.ID {
	waiting, err := held.Waiting(s.ctx(), limit)
	require.NoError(s.t, err)
	return s.ofTasks(waiting...)
}

func (s *suite) ofTasks(deliveries ...event.Delivery) []message.ID {
	var all []message.ID
	for _, d := range deliveries {
		task, err := event.DecodeTask(d.Payload)
		require.NoError(s.t, err)
		require.Equal(s.t, fmt.Sprintf("fanmail.v1.fanout.%s.%d", task.Lane, task.Partition), d.Subject)
		all = append(all, task.ID)
	}
	return all
}

func (s *suite) publish(from, to int) {
	var events []event.Published
	for _, id := range ids(from, to) {
		events = append(events, event.NewPublished(message.Ref{From: "author", ID: id}))
	}
	require.NoError(s.t, s.Bus.EmitPublished(s.ctx(), events, true))
}

func (s *suite) fetch(limit int) []bus.Received {
	received, err := s.Bus.FetchPublished(s.ctx(), limit)
	require.NoError(s.t, err)
	require.NotEmpty(s.t, received)
	require.LessOrEqual(s.t, len(received), limit)
	return received
}

// fetchAll fetches so many events, which may take several calls.
func (s *suite) fetchAll(count int) []bus.Received {
	var all []bus.Received
	for len(all) < count {
		all = append(all, s.fetch(count-len(all))...)
	}
	return all
}

func (s *suite) ofEvents(received []bus.Received) []message.ID {
	var all []message.ID
	for _, r := range received {
		e, err := event.DecodePublished(r.Delivery().Payload)
		require.NoError(s.t, err)
		require.Equal(s.t, "fanmail.v1.published", r.Delivery().Subject)
		all = append(all, e.ID)
	}
	return all
}

func (s *suite) fetchInOrder() {
	s.publish(0, 25)
	var all []message.ID
	for len(all) < 25 {
		received := s.fetch([]int{1, 10, 1000}[len(all)%3])
		for _, r := range received {
			require.Equal(s.t, 1, r.Delivery().Attempts)
			require.NoError(s.t, r.Ack())
		}
		all = append(all, s.ofEvents(received)...)
	}
	require.Equal(s.t, ids(0, 25), all)
	require.Eventually(s.t, func() bool {
		backlog, err := s.Bus.Backlog(s.ctx())
		return err == nil && backlog.Published.Messages == 0
	}, patience, 10*time.Millisecond, "an acknowledged event is gone")
}

func (s *suite) fetchReleased() {
	s.publish(0, 1)
	require.NoError(s.t, s.fetch(10)[0].Release(0))
	again := s.fetch(10)
	require.Equal(s.t, ids(0, 1), s.ofEvents(again))
	require.Equal(s.t, 2, again[0].Delivery().Attempts)
}

func (s *suite) fetchReleasedLater() {
	s.publish(0, 2)
	require.NoError(s.t, s.fetch(1)[0].Release(24*time.Hour))
	require.Equal(s.t, ids(1, 2), s.ofEvents(s.fetch(10)))
	s.publish(2, 3)
	soon := s.fetch(1)
	require.Equal(s.t, ids(2, 3), s.ofEvents(soon))
	require.NoError(s.t, soon[0].Release(time.Millisecond))
	again := s.fetch(1)
	require.Equal(s.t, ids(2, 3), s.ofEvents(again))
	require.Equal(s.t, 2, again[0].Delivery().Attempts)
}

// requireEnds calls a method that waits, and ends its context.
func (s *suite) requireEnds(wait func(context.Context) error) {
	ctx, cancel := context.WithCancel(s.ctx())
	ended := make(chan error, 1)
	go func() { ended <- wait(ctx) }()
	cancel()
	require.Equal(s.t, context.Canceled, <-ended)
}

func (s *suite) fetchEnds() {
	s.requireEnds(func(ctx context.Context) error {
		_, err := s.Bus.FetchPublished(ctx, 10)
		return err
	})
}

func (s *suite) fetchLoginsEnds() {
	s.requireEnds(func(ctx context.Context) error {
		_, err := s.Bus.FetchLogins(ctx, 10)
		return err
	})
}

func (s *suite) takeEnds() {
	s.requireEnds(func(ctx context.Context) error {
		held, err := s.Bus.Take(ctx, event.Bulk, 0)
		require.Nil(s.t, held)
		return err
	})
}

func (s *suite) takeCancelled() {
	for n := range 100 {
		ctx, cancel := context.WithCancel(s.ctx())
		type taken struct {
			held bus.Held
			err  error
		}
		done := make(chan taken, 1)
		go func() {
			held, err := s.Bus.Take(ctx, event.Bulk, 0)
			done <- taken{held, err}
		}()
		emitted := make(chan error, 1)
		go func() { emitted <- s.Bus.EmitTasks(s.ctx(), tasks(event.Bulk, 0, n, n+1)) }()
		if n%2 == 0 {
			require.NoError(s.t, <-emitted)
		}
		cancel()
		if n%2 == 1 {
			require.NoError(s.t, <-emitted)
		}
		got := <-done
		if got.err != nil {
			require.Equal(s.t, context.Canceled, got.err)
			got.held = s.take(event.Bulk, 0)
		}
		require.Equal(s.t, ids(n, n+1), s.ofTasks(got.held.First()))
		require.NoError(s.t, got.held.Done(s.ctx()))
	}
}

func (s *suite) emitPublishedRepeats() {
	events := []event.Published{event.NewPublished(message.Ref{From: "author", ID: id(0)})}
	for _, fresh := range []bool{false, false, true} {
		require.NoError(s.t, s.Bus.EmitPublished(s.ctx(), events, fresh))
	}
	s.publish(1, 2)
	require.Equal(s.t, append(append(ids(0, 1), ids(0, 1)...), ids(1, 2)...), s.ofEvents(s.fetchAll(3)))
}

// nowhere returns tasks whose places do not exist.
func nowhere() map[string]event.Task {
	return map[string]event.Task{
		"a partition above all": tasks(event.Bulk, Partitions, 0, 1)[0],
		"a negative partition":  tasks(event.Bulk, -1, 0, 1)[0],
		"an unknown lane":       tasks("slow", 0, 0, 1)[0],
	}
}

func (s *suite) emitTasksNowhere() {
	for name, task := range nowhere() {
		require.ErrorContains(s.t, s.Bus.EmitTasks(s.ctx(), []event.Task{task}), "there is no partition", name)
	}
}

func (s *suite) takeNowhere() {
	for name, task := range nowhere() {
		_, err := s.Bus.Take(s.ctx(), task.Lane, task.Partition)
		require.ErrorContains(s.t, err, "there is no partition", name)
	}
}

func (s *suite) takeExcludes() {
	s.emitTasks(event.Bulk, 0, 0, 2)
	s.emitTasks(event.Bulk, 1, 0, 1)
	s.emitTasks(event.Medium, 0, 0, 1)
	held := s.take(event.Bulk, 0)
	next := make(chan bus.Held, 1)
	go func() {
		other, err := s.Bus.Take(s.ctx(), event.Bulk, 0)
		if err != nil {
			s.t.Error(err)
		}
		next <- other
	}()
	s.take(event.Bulk, 1)
	s.take(event.Medium, 0)
	require.Empty(s.t, next, "two hold the same lane and partition")
	require.NoError(s.t, held.Done(s.ctx()))
	other := <-next
	require.NotNil(s.t, other)
	require.Equal(s.t, ids(1, 2), s.ofTasks(other.First()))
	require.Equal(s.t, 1, other.First().Attempts)
}

func (s *suite) waiting() {
	for n := range 10 { // tasks of other lanes and partitions lie between
		s.emitTasks(event.Bulk, 0, n, n+1)
		s.emitTasks(event.Bulk, 1, n, n+1)
		s.emitTasks(event.Express, 0, n, n+1)
	}
	held := s.take(event.Bulk, 0)
	require.Equal(s.t, ids(0, 1), s.ofTasks(held.First()))
	require.Empty(s.t, s.behind(held, 0))
	require.Equal(s.t, ids(1, 10), s.behind(held, 100))
	some, err := held.Waiting(s.ctx(), 4)
	require.NoError(s.t, err)
	require.Equal(s.t, ids(1, 5), s.ofTasks(some...))
	for _, task := range some {
		require.Greater(s.t, task.Sequence, held.First().Sequence)
		require.Zero(s.t, task.Attempts)
		require.False(s.t, task.Stored.IsZero())
	}
	require.NoError(s.t, held.Remove(s.ctx(), some))
	require.Equal(s.t, ids(5, 10), s.behind(held, 100))
	require.NoError(s.t, held.Done(s.ctx()))

	held = s.take(event.Bulk, 0)
	require.Equal(s.t, ids(5, 6), s.ofTasks(held.First()))
	require.Equal(s.t, 1, held.First().Attempts)
	require.Equal(s.t, ids(1, 10), s.behind(s.take(event.Bulk, 1), 100))
	require.Equal(s.t, ids(1, 10), s.behind(s.take(event.Express, 0), 100))
}

func (s *suite) removeGone() {
	s.emitTasks(event.Bulk, 0, 0, 3)
	held := s.take(event.Bulk, 0)
	waiting, err := held.Waiting(s.ctx(), 10)
	require.NoError(s.t, err)
	require.NoError(s.t, held.Remove(s.ctx(), waiting))
	require.NoError(s.t, held.Remove(s.ctx(), append(waiting, event.Delivery{Sequence: 4711})))
	require.Empty(s.t, s.behind(held, 10))
}

func (s *suite) release() {
	s.emitTasks(event.Bulk, 0, 0, 2)
	held := s.take(event.Bulk, 0)
	require.NoError(s.t, held.Extend())
	require.NoError(s.t, held.Release(s.ctx()))
	next := s.take(event.Bulk, 0)
	require.Equal(s.t, held.First().Sequence, next.First().Sequence)
	require.Equal(s.t, 2, next.First().Attempts)
	require.Equal(s.t, ids(1, 2), s.behind(next, 10))
}

func (s *suite) doneTwice() {
	s.emitTasks(event.Bulk, 0, 0, 2)
	slow := s.take(event.Bulk, 0)
	require.NoError(s.t, slow.Release(s.ctx())) // as if the lease had ended
	next := s.take(event.Bulk, 0)
	require.NoError(s.t, slow.Done(s.ctx()))
	require.NoError(s.t, next.Done(s.ctx()))
	require.Equal(s.t, ids(1, 2), s.ofTasks(s.take(event.Bulk, 0).First()))
}

func (s *suite) fetchLogins() {
	payloads := []string{`{"user":"ann"}`, "nonsense", "\xff", `{"user":"ben"}`}
	for _, payload := range payloads {
		require.NoError(s.t, s.Login(s.ctx(), []byte(payload)))
	}
	var got []string
	for len(got) < len(payloads) {
		received, err := s.Bus.FetchLogins(s.ctx(), 2)
		require.NoError(s.t, err)
		require.LessOrEqual(s.t, len(received), 2)
		for _, r := range received {
			got = append(got, string(r.Delivery().Payload))
			require.Equal(s.t, "fanmail.v1.login", r.Delivery().Subject)
			require.Equal(s.t, 1, r.Delivery().Attempts)
			require.NoError(s.t, r.Ack())
		}
	}
	require.Equal(s.t, payloads, got)
	require.NoError(s.t, s.Login(s.ctx(), []byte(payloads[0])))
	received, err := s.Bus.FetchLogins(s.ctx(), 1)
	require.NoError(s.t, err)
	require.NoError(s.t, received[0].Release(0))
	again, err := s.Bus.FetchLogins(s.ctx(), 1)
	require.NoError(s.t, err)
	require.Equal(s.t, 2, again[0].Delivery().Attempts)
	require.Equal(s.t, received[0].Delivery().Stored, again[0].Delivery().Stored)
}

func (s *suite) file(attempts int, subject string) {
	require.NoError(s.t, s.Bus.DeadLetter(s.ctx(), event.DeadLetter{
		Version: event.Version, Reason: "malformed", Error: "no", Attempts: attempts, Subject: subject, Payload: []byte{0xff},
	}))
}

func (s *suite) deadLetters() {
	for n, subject := range []string{"fanmail.v1.fanout.bulk.0", "fanmail.v1.published", "fanmail.v1.login", "elsewhere"} {
		s.file(n+1, subject)
	}
	all, err := s.Bus.DeadLetters(s.ctx(), 0, 10)
	require.NoError(s.t, err)
	require.Len(s.t, all, 4)
	for n, letter := range all {
		require.Equal(s.t, n+1, letter.Attempts)
		require.Equal(s.t, []byte{0xff}, letter.Payload)
		require.False(s.t, letter.At.IsZero())
	}
	page, err := s.Bus.DeadLetters(s.ctx(), all[0].ID, 2)
	require.NoError(s.t, err)
	require.Equal(s.t, all[1:3], page)
	page, err = s.Bus.DeadLetters(s.ctx(), all[3].ID, 2)
	require.NoError(s.t, err)
	require.Empty(s.t, page)
}

func (s *suite) dropGone() {
	s.file(1, "fanmail.v1.published")
	s.file(2, "fanmail.v1.published")
	all, err := s.Bus.DeadLetters(s.ctx(), 0, 10)
	require.NoError(s.t, err)
	for range 2 {
		require.NoError(s.t, s.Bus.Drop(s.ctx(), all[0].ID))
	}
	left, err := s.Bus.DeadLetters(s.ctx(), 0, 10)
	require.NoError(s.t, err)
	require.Equal(s.t, all[1:], left)
}

func (s *suite) emitAgain() {
	s.emitTasks(event.Bulk, 1, 0, 1)
	held := s.take(event.Bulk, 1)
	require.NoError(s.t, s.Bus.Emit(s.ctx(), event.DeadLetter{Subject: held.First().Subject, Payload: held.First().Payload}))
	require.Equal(s.t, ids(0, 1), s.behind(held, 10))
}

func (s *suite) consumed() {
	for subject, consumed := range map[string]bool{
		"fanmail.v1.published": true, "fanmail.v1.login": true, "fanmail.v1.fanout.bulk.0": true,
		"fanmail.v1.fanout.bulk.2": false, "fanmail.v1.fanout.slow.0": false, "fanmail.v1.rehydrated": false, "": false,
	} {
		require.Equal(s.t, consumed, s.Bus.Consumed(subject), subject)
	}
}

// eventually returns the backlog as soon as it meets a condition: it may be a second old.
func (s *suite) eventually(met func(bus.Backlog) bool) (backlog bus.Backlog) {
	require.Eventually(s.t, func() bool {
		var err error
		backlog, err = s.Bus.Backlog(s.ctx())
		require.NoError(s.t, err)
		return met(backlog)
	}, patience, 10*time.Millisecond)
	return backlog
}

func (s *suite) backlog() {
	s.emitTasks(event.Bulk, 0, 0, 2)
	s.emitTasks(event.Bulk, 1, 0, 2)
	s.emitTasks(event.Express, 1, 0, 1)
	s.publish(0, 3)
	require.NoError(s.t, s.Login(s.ctx(), []byte("a login")))
	s.file(1, "fanmail.v1.published")
	received := s.fetchAll(3)
	held, other := s.take(event.Bulk, 0), s.take(event.Express, 1)
	all := s.eventually(func(b bus.Backlog) bool { return b.DeadLetters.Messages == 1 && b.Tasks[event.Bulk].Messages == 4 })
	require.Equal(s.t, bus.Queue{Messages: 4, Oldest: held.First().Stored}, all.Tasks[event.Bulk])
	require.Equal(s.t, bus.Queue{Messages: 1, Oldest: other.First().Stored}, all.Tasks[event.Express])
	require.Equal(s.t, bus.Queue{}, all.Tasks[event.Medium])
	require.Equal(s.t, bus.Queue{Messages: 3, Oldest: received[0].Delivery().Stored}, all.Published)
	require.Equal(s.t, uint64(1), all.Logins.Messages)
	require.Equal(s.t, held.First().Stored, all.OldestTask())
	for name, fill := range all.Streams {
		require.NotZero(s.t, fill.Bytes, name)
	}

	waiting, err := held.Waiting(s.ctx(), 1)
	require.NoError(s.t, err)
	require.NoError(s.t, held.Remove(s.ctx(), waiting))
	require.NoError(s.t, held.Done(s.ctx()))
	rest := s.eventually(func(b bus.Backlog) bool { return b.Tasks[event.Bulk].Messages == 2 })
	require.Equal(s.t, s.take(event.Bulk, 1).First().Stored, rest.OldestTask(), "the other partition has the oldest task now")
}

func (s *suite) traces() {
	given := event.Trace{Parent: "00-11111111111111111111111111111111-aaaaaaaaaaaaaaaa-01", State: "vendor=1"}
	published := event.NewPublished(message.Ref{From: "author", ID: id(0)})
	published.Trace = given
	require.NoError(s.t, s.Bus.EmitPublished(s.ctx(), []event.Published{published}, false))
	s.publish(1, 2)
	received := s.fetchAll(2)
	require.Equal(s.t, given, received[0].Delivery().Trace)
	require.Zero(s.t, received[1].Delivery().Trace)

	emitted := tasks(event.Bulk, 1, 0, 3)
	emitted[0].Trace, emitted[2].Trace = given, given
	require.NoError(s.t, s.Bus.EmitTasks(s.ctx(), emitted))
	held := s.take(event.Bulk, 1)
	require.Equal(s.t, given, held.First().Trace)
	behind, err := held.Waiting(s.ctx(), 2)
	require.NoError(s.t, err)
	require.Equal(s.t, []event.Trace{{}, given}, []event.Trace{behind[0].Trace, behind[1].Trace})

	require.NoError(s.t, s.Bus.DeadLetter(s.ctx(), event.DeadLetter{
		Version: event.Version, Reason: "attempts", Subject: held.First().Subject, Payload: held.First().Payload, Trace: given,
	}))
	filed, err := s.Bus.DeadLetters(s.ctx(), 0, 1)
	require.NoError(s.t, err)
	require.Equal(s.t, given, filed[0].Trace)
	require.NoError(s.t, held.Remove(s.ctx(), behind))
	require.NoError(s.t, held.Done(s.ctx()))
	require.NoError(s.t, s.Bus.Emit(s.ctx(), filed[0].DeadLetter))
	require.Equal(s.t, given, s.take(event.Bulk, 1).First().Trace)
}

func (s *suite) healthy() {
	require.NoError(s.t, s.Bus.Healthy(s.ctx()))
	ctx, cancel := context.WithCancel(s.ctx())
	cancel()
	require.Equal(s.t, context.Canceled, s.Bus.Healthy(ctx))
}

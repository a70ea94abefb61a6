package fanout

import (
	"bytes"
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/internal/pulse"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

const (
	extendEvery = 10 * time.Second
	stuckAfter  = 2 * time.Minute
)

// counted is a bus.Held that counts its calls.
type counted struct {
	first                               event.Delivery
	extended, done, released, givenBack atomic.Int64
}

func (c *counted) First() event.Delivery                                  { return c.first }
func (c *counted) Waiting(context.Context, int) ([]event.Delivery, error) { return nil, nil }
func (c *counted) Extend() error                                          { return count(&c.extended) }
func (c *counted) Remove(context.Context, []event.Delivery) error         { return nil }
func (c *counted) Done(context.Context) error                             { return count(&c.done) }
func (c *counted) Release(context.Context) error                          { return count(&c.released) }

func (c *counted) GiveBack(context.Context) error { return count(&c.givenBack) }

func count(n *atomic.Int64) error {
	n.Add(1)
	return nil
}

// ends returns how often the hold has ended in Done, Release and GiveBack.
func (c *counted) ends() [3]int64 {
	return [3]int64{c.done.Load(), c.released.Load(), c.givenBack.Load()}
}

// answering is a progress.Store that answers every read of scans with answer.
type answering struct {
	progress.Store
	answer func() error
}

func (s answering) Scans(ctx context.Context, _ int, ids []message.ID) ([]progress.Scan, []bool, error) {
	dead := make([]progress.Scan, len(ids))
	planned := make([]bool, len(ids))
	for i := range ids {
		dead[i].Dead, planned[i] = true, true // so the batch has nothing else to do
	}
	defer pulse.Beat(ctx)
	return dead, planned, s.answer()
}

// EmitTasks implements bus.Emitter. The rest is not called.
func (s *stalling) EmitTasks(_ context.Context, tasks []event.Task) error {
	s.emitted.Add(int64(len(tasks)))
	return nil
}

// stalling starts a batch of one task, whose calls of the store answer as given. It returns when the batch waits.
type stalling struct {
	*counted
	bus.Emitter
	emitted   atomic.Int64
	deliverer *Deliverer
	log       *bytes.Buffer // to be read when ended is set
	ended     atomic.Bool
}

func newStalling(t *testing.T, answer func() error) *stalling {
	t.Helper()
	id := message.MinID(time.Now())
	id[6], id[8] = 0x70, 0x80
	payload, err := event.Task{Version: event.Version, ID: id, From: "ann", Lane: event.Bulk}.Encode()
	require.NoError(t, err)
	s := &stalling{
		counted: &counted{first: event.Delivery{Sequence: 7, Subject: "fanmail.v1.fanout.bulk.0", Payload: payload, Attempts: 1}},
		log:     new(bytes.Buffer),
	}
	s.deliverer = NewDeliverer(
		Stores{Progress: answering{answer: answer}}, s,
		Options{
			Partitions: 1, Workers: map[event.Lane]int{event.Bulk: 1}, BatchOwners: 8, BatchTasks: 8, MaxAttempts: 1, ExtendEvery: extendEvery,
			StuckAfter: stuckAfter, Rules: func() userstate.Rules { return userstate.Rules{} }, Now: time.Now, Logger: zerolog.New(zerolog.SyncWriter(s.log)), Metrics: prometheus.NewRegistry(),
		})
	slots := s.deliverer.metrics.lanes[event.Bulk].slots
	require.True(t, slots.acquire(t.Context()))
	slots.work()
	go func() {
		_ = s.deliverer.stay(t.Context(), t.Context(), s.counted, event.Bulk, 0, nothing{})
		s.ended.Store(true)
	}()
	synctest.Wait()
	return s
}

// nothing is a Taker without tasks.
type nothing struct{}

func (nothing) Poll(context.Context, event.Lane, int, time.Duration) (bus.Held, error) {
	return nil, nil
}
func (nothing) Take(context.Context, event.Lane, int) (bus.Held, error) { return nil, nil }

func (s *stalling) lane() *lane { return s.deliverer.metrics.lanes[event.Bulk] }

func (s *stalling) stuck() float64 { return testutil.ToFloat64(s.lane().stuck) }

// wait lets time pass until everything in the bubble waits again.
func wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// A worker gives up a batch when no call of the store has returned for StuckAfter. It extends the hold no more. The worker slot stays
// busy until the call returns. Then the batch is not repeated, and the task is neither removed nor handed back again.
func TestStuckBatchIsGivenUp(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]error{"the call succeeds": nil, "the call fails": errors.New("the disk hung")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var calls atomic.Int64
				hang := make(chan error)
				s := newStalling(t, func() error {
					calls.Add(1)
					return <-hang
				})
				wait(stuckAfter - time.Second)
				require.Zero(t, s.ends())
				require.EqualValues(t, (stuckAfter-time.Second)/extendEvery, s.extended.Load())
				require.Zero(t, s.stuck())
				require.Equal(t, stuckAfter-time.Second, s.lane().underWay.oldest(time.Now()))

				wait(stuckAfter / stuckChecks)
				require.Equal(t, [3]int64{0, 0, 1}, s.ends())
				require.InDelta(t, 1, s.stuck(), 0)
				extended := s.extended.Load()
				wait(time.Hour)
				require.Equal(t, [3]int64{0, 0, 1}, s.ends())
				require.Equal(t, extended, s.extended.Load())
				require.Equal(t, 1, s.lane().slots.inUse())
				require.Greater(t, s.lane().underWay.oldest(time.Now()), time.Hour)

				hang <- end
				wait(time.Hour)
				require.True(t, s.ended.Load())
				require.Zero(t, s.lane().slots.inUse())
				require.Zero(t, s.lane().underWay.oldest(time.Now()))
				require.EqualValues(t, 1, calls.Load(), "a batch that was given up is not repeated")
				require.Equal(t, [3]int64{0, 0, 1}, s.ends())
				require.Contains(t, s.log.String(), `"subject":"fanmail.v1.fanout.bulk.0","sequence":7`)
				require.Contains(t, s.log.String(), `"message_id":"`)
			})
		})
	}
}

// A store that answers slowly, or with errors, does not make a worker give its batch up. After errors, the task is at the end of the queue.
func TestSlowStoreIsNotStuck(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]error{"an answer": nil, "an error": errors.New("no server answers")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newStalling(t, func() error {
					time.Sleep(stuckAfter - 20*time.Second)
					return answer
				})
				wait(time.Hour)
				require.True(t, s.ended.Load())
				require.Equal(t, [3]int64{1, 0, 0}, s.ends())
				require.Positive(t, s.extended.Load())
				require.Zero(t, s.stuck())
				require.Equal(t, answer != nil, s.emitted.Load() == 1)
			})
		})
	}
}

// The metric has the age of the oldest batch.
func TestAgeOfTheOldestBatch(t *testing.T) {
	t.Parallel()
	began := time.UnixMilli(0)
	var u underWay
	require.Zero(t, u.oldest(began))
	old, young := &hold{began: began}, &hold{began: began.Add(time.Minute)}
	u.add(young)
	u.add(old)
	require.Equal(t, time.Hour, u.oldest(began.Add(time.Hour)))
	u.remove(old)
	require.Equal(t, 59*time.Minute, u.oldest(began.Add(time.Hour)))
	u.remove(young)
	require.Zero(t, u.oldest(began.Add(time.Hour)))
	u.add(&hold{began: began.Add(time.Hour)})
	require.Zero(t, u.oldest(began), "the clock was set back")
}

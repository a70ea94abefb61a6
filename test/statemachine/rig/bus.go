package rig

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/internal/natsbus"
	"github.com/fanmail/fanmail/internal/natsbus/natsserver"
	"github.com/fanmail/fanmail/pkg/event"
)

// taskPrefix is what the subjects of tasks begin with.
const taskPrefix = "fanmail.v1.fanout."

// place is a lane's partition.
type place struct {
	lane      event.Lane
	partition int
}

func (p place) subject() string { return taskPrefix + string(p.lane) + "." + strconv.Itoa(p.partition) }

var _ bus.Bus = (*Bus)(nil)

// Bus is the real bus behind the seam, with methods that look behind it. It outlives the processes that use it. It implements
// bus.Bus.
type Bus struct {
	*natsbus.Bus
	js         jetstream.JetStream
	partitions int

	mu        sync.Mutex
	tasks     []event.Task
	published []event.Published
	held      map[place]*Held
	received  map[uint64]*received
}

// NewBus starts a server with a bus on it, which end with the test. Leases last for so long that they never run out.
func NewBus(t *testing.T, partitions int) *Bus {
	t.Helper()
	return NewSmallBus(t, partitions, 0)
}

// NewSmallBus is NewBus, with streams for published events and for tasks of that many bytes; 0 means plenty.
func NewSmallBus(t *testing.T, partitions int, streamBytes int64) *Bus {
	t.Helper()
	return newBus(t, partitions, streamBytes, 0)
}

// NewNarrowBus is NewBus, with a server that accepts events of at most that many bytes.
func NewNarrowBus(t *testing.T, partitions int, maxPayload int32) *Bus {
	t.Helper()
	return newBus(t, partitions, 0, maxPayload)
}

func newBus(t *testing.T, partitions int, streamBytes int64, maxPayload int32) *Bus {
	t.Helper()
	server, err := natsserver.Start(t.Context(), natsserver.Options{
		Dir: t.TempDir(), Addr: "127.0.0.1:0", MaxPayload: maxPayload, StartTimeout: time.Minute, Logger: zerolog.Nop(),
	})
	require.NoError(t, err)
	t.Cleanup(server.Stop)
	inner, err := natsbus.Connect(t.Context(), natsbus.Options{
		Server: server, Partitions: partitions, Lease: lease, Replicas: 1,
		PublishedBytes: cmp.Or(streamBytes, 256<<20), FanoutBytes: cmp.Or(streamBytes, 1<<30), LoginBytes: 256 << 20, DeadLetterBytes: 256 << 20,
		RequestTimeout: time.Minute, DrainTimeout: time.Minute, Logger: zerolog.Nop(),
	})
	require.NoError(t, err)
	t.Cleanup(inner.Close)
	nc, err := nats.Connect(server.ClientURL(), nats.Timeout(time.Minute))
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	return &Bus{Bus: inner, js: js, partitions: partitions, held: make(map[place]*Held), received: make(map[uint64]*received)}
}

// Clear empties the bus, whatever was left in it.
func (b *Bus) Clear(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tasks, b.published = nil, nil
	clear(b.held)
	clear(b.received)
	for _, name := range []string{natsbus.PublishedStream, natsbus.FanoutStream, natsbus.LoginStream, natsbus.DeadLetterStream} {
		stream, err := b.js.Stream(ctx, name)
		if err != nil {
			return err
		}
		if err := stream.Purge(ctx); err != nil {
			return err
		}
	}
	return nil
}

// EmitPublished implements bus.Emitter.
func (b *Bus) EmitPublished(ctx context.Context, events []event.Published, fresh bool) error {
	return run(ctx, "EmitPublished", func() error {
		b.mu.Lock()
		b.published = append(b.published, events...)
		b.mu.Unlock()
		return b.Bus.EmitPublished(ctx, events, fresh)
	})
}

// EmitTasks implements bus.Emitter.
func (b *Bus) EmitTasks(ctx context.Context, tasks []event.Task) error {
	return run(ctx, "EmitTasks", func() error {
		b.mu.Lock()
		b.tasks = append(b.tasks, tasks...)
		b.mu.Unlock()
		return b.Bus.EmitTasks(ctx, tasks)
	})
}

// DeadLetter implements bus.Emitter.
func (b *Bus) DeadLetter(ctx context.Context, letter event.DeadLetter) error {
	return run(ctx, "DeadLetter", func() error { return b.Bus.DeadLetter(ctx, letter) })
}

// FileDamaged implements bus.Emitter.
func (b *Bus) FileDamaged(ctx context.Context, d event.Damaged, cause string) (bool, error) {
	return through(ctx, "FileDamaged", func() (bool, error) { return b.Bus.FileDamaged(ctx, d, cause) })
}

// Emitted returns everything that was emitted since the bus was cleared.
func (b *Bus) Emitted() ([]event.Task, []event.Published) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.tasks), slices.Clone(b.published)
}

// Queued returns how many published events are in the bus, and how many tasks by their subjects.
func (b *Bus) Queued(ctx context.Context) (published int, tasks map[string]uint64, err error) {
	stream, err := b.js.Stream(ctx, natsbus.PublishedStream)
	if err != nil {
		return 0, nil, err
	}
	published = int(stream.CachedInfo().State.Msgs)
	if stream, err = b.js.Stream(ctx, natsbus.FanoutStream); err != nil {
		return 0, nil, err
	}
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(taskPrefix+">"))
	if err != nil {
		return 0, nil, err
	}
	return published, info.State.Subjects, nil
}

// Tasks returns the tasks in the bus, in the order in which they were emitted.
func (b *Bus) Tasks(ctx context.Context) ([]event.Task, error) {
	var tasks []event.Task
	err := b.each(ctx, natsbus.FanoutStream, func(data []byte) error {
		task, err := event.DecodeTask(data)
		tasks = append(tasks, task)
		return err
	})
	return tasks, err
}

// each reads a stream from its first message to its last.
func (b *Bus) each(ctx context.Context, name string, read func(data []byte) error) error {
	stream, err := b.js.Stream(ctx, name)
	if err != nil {
		return err
	}
	state := stream.CachedInfo().State
	for sequence := max(1, state.FirstSeq); sequence <= state.LastSeq; sequence++ {
		msg, err := stream.GetMsg(ctx, sequence)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		if err == nil {
			err = read(msg.Data)
		}
		if err != nil {
			return fmt.Errorf("%s %d: %w", name, sequence, err)
		}
	}
	return nil
}

// Lose deletes the nth of the events in a stream, as a bus does that was not synced when its machine went down.
func (b *Bus) Lose(ctx context.Context, name string, n int) error {
	stream, err := b.js.Stream(ctx, name)
	if err != nil {
		return err
	}
	state := stream.CachedInfo().State
	for sequence := max(1, state.FirstSeq); sequence <= state.LastSeq; sequence++ {
		if _, err := stream.GetMsg(ctx, sequence); errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		} else if err != nil {
			return err
		}
		if n == 0 {
			return stream.DeleteMsg(ctx, sequence)
		}
		n--
	}
	return nil
}

// Put puts anything into the queue of a lane's partition, as a task.
func (b *Bus) Put(ctx context.Context, lane event.Lane, partition int, payload []byte) error {
	_, err := b.js.Publish(ctx, place{lane, partition}.subject(), payload)
	return err
}

// PutLogin publishes a login with any payload.
func (b *Bus) PutLogin(ctx context.Context, payload []byte) error {
	_, err := b.js.Publish(ctx, "fanmail.v1.login", payload)
	return err
}

// PutPublished puts anything among the published events.
func (b *Bus) PutPublished(ctx context.Context, payload []byte) error {
	_, err := b.js.Publish(ctx, "fanmail.v1.published", payload)
	return err
}

// Pending returns how many tasks of a consumer are held, by its name.
func (b *Bus) Pending(ctx context.Context, consumer string) int {
	c, err := b.js.Consumer(ctx, natsbus.FanoutStream, consumer)
	if err != nil {
		return 0
	}
	return c.CachedInfo().NumAckPending
}

// Requests returns how many requests for a task wait at a consumer, by its name.
func (b *Bus) Requests(ctx context.Context, consumer string) int {
	c, err := b.js.Consumer(ctx, natsbus.FanoutStream, consumer)
	if err != nil {
		return 0
	}
	return c.CachedInfo().NumWaiting
}

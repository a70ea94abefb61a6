package natsbus

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/pkg/event"
)

// backlogFresh is how long Backlog returns the same answer. One scrape of the metrics calls Backlog several times.
const backlogFresh = time.Second

// backlogCache is the last answer of Backlog.
type backlogCache struct {
	mu   sync.Mutex
	at   time.Time
	last bus.Backlog
}

// Backlog implements bus.Monitor.
func (b *Bus) Backlog(ctx context.Context) (bus.Backlog, error) {
	b.backlog.mu.Lock()
	defer b.backlog.mu.Unlock()
	if !b.backlog.at.IsZero() && b.opts.Now().Sub(b.backlog.at) < backlogFresh {
		return b.backlog.last, nil
	}
	backlog, err := b.readBacklog(ctx)
	if err != nil {
		return bus.Backlog{}, classify(ctx, "read the backlog", err)
	}
	b.backlog.last, b.backlog.at = backlog, b.opts.Now()
	return backlog, nil
}

// OldestPublished implements bus.Queues by a single request.
func (b *Bus) OldestPublished(ctx context.Context, limit int) ([]event.Delivery, error) {
	oldest, err := b.read(ctx, PublishedStream, publishedSubject, 1, limit)
	return oldest, classify(ctx, "read the oldest published events", err)
}

// OldestTasks implements bus.Queues by a single request.
func (b *Bus) OldestTasks(ctx context.Context, lane event.Lane, partition, limit int) ([]event.Delivery, error) {
	if err := b.checkPlace(lane, partition); err != nil {
		return nil, err
	}
	oldest, err := b.read(ctx, FanoutStream, taskSubject(lane, partition), 1, limit)
	return oldest, classify(ctx, "read the oldest tasks", err)
}

func (b *Bus) readBacklog(ctx context.Context) (bus.Backlog, error) {
	backlog := bus.Backlog{Streams: make(map[string]bus.Fill)}
	for name, queue := range map[string]*bus.Queue{
		PublishedStream: &backlog.Published, LoginStream: &backlog.Logins, DeadLetterStream: &backlog.DeadLetters,
	} {
		stream, err := b.js.Stream(ctx, name) // sends a request to the server
		if err != nil {
			return bus.Backlog{}, err
		}
		info := stream.CachedInfo()
		backlog.Streams[name] = fill(info)
		if info.State.Msgs > 0 {
			*queue = bus.Queue{Messages: info.State.Msgs, Oldest: info.State.FirstTime}
		}
	}
	stream, err := b.js.Stream(ctx, FanoutStream)
	if err != nil {
		return bus.Backlog{}, err
	}
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(fanoutPrefix+">"))
	if err != nil {
		return bus.Backlog{}, err
	}
	backlog.Streams[FanoutStream] = fill(info)
	if backlog.Tasks, err = b.tasks(ctx, info.State); err != nil {
		return bus.Backlog{}, err
	}
	return backlog, nil
}

// tasks returns the queues of the lanes in the stream of tasks.
func (b *Bus) tasks(ctx context.Context, state jetstream.StreamState) (map[event.Lane]bus.Queue, error) {
	waiting := make(map[string]uint64)
	for subject, n := range state.Subjects {
		lane, _, _ := strings.Cut(strings.TrimPrefix(subject, fanoutPrefix), ".")
		waiting[lane] += n
	}
	queues := make(map[event.Lane]bus.Queue)
	for _, lane := range event.Lanes() {
		queue := bus.Queue{Messages: waiting[string(lane)]}
		if queue.Messages > 0 {
			oldest, err := b.read(ctx, FanoutStream, fanoutPrefix+string(lane)+".*", state.FirstSeq, 1)
			if err != nil {
				return nil, err
			}
			if len(oldest) > 0 { // otherwise the tasks are done by now
				queue.Oldest = oldest[0].Stored
			}
		}
		queues[lane] = queue
	}
	return queues, nil
}

func fill(info *jetstream.StreamInfo) bus.Fill {
	f := bus.Fill{Bytes: info.State.Bytes}
	if info.Config.MaxBytes > 0 {
		f.Limit = uint64(info.Config.MaxBytes)
	}
	return f
}

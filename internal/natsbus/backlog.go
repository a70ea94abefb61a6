package natsbus

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/fanmail/fanmail/pkg/event"
)

// Backlog is what is on the bus at a moment, whoever put it there. Work that somebody is at is part of it.
type Backlog struct {
	Tasks       map[event.Lane]Queue
	Published   Queue
	Logins      Queue
	DeadLetters Queue
	// Streams tells how full the streams are, by their names.
	Streams map[string]Fill
}

// Queue is how much there is of one kind, and since when by the server's clock; the zero time where there is nothing.
type Queue struct {
	Messages uint64
	Oldest   time.Time
}

// Fill is how full a stream is, in bytes. A Limit of 0 is none.
type Fill struct {
	Bytes, Limit uint64
}

// backlogFresh is for how long a Backlog is shown again: whatever asks for it does so for several reasons at once.
const backlogFresh = time.Second

// backlogCache is the Backlog that was read last.
type backlogCache struct {
	mu   sync.Mutex
	at   time.Time
	last Backlog
}

// Backlog tells what is on the bus. It may be a second old.
func (b *Bus) Backlog(ctx context.Context) (Backlog, error) {
	b.backlog.mu.Lock()
	defer b.backlog.mu.Unlock()
	if !b.backlog.at.IsZero() && time.Since(b.backlog.at) < backlogFresh {
		return b.backlog.last, nil
	}
	backlog, err := b.readBacklog(ctx)
	if err != nil {
		return Backlog{}, classify(ctx, "ask what is waiting", err)
	}
	b.backlog.last, b.backlog.at = backlog, time.Now() //nolint:forbidigo // how old an answer is, is nothing to inject
	return backlog, nil
}

func (b *Bus) readBacklog(ctx context.Context) (Backlog, error) {
	backlog := Backlog{Streams: make(map[string]Fill)}
	for name, queue := range map[string]*Queue{
		PublishedStream: &backlog.Published, LoginStream: &backlog.Logins, DeadLetterStream: &backlog.DeadLetters,
	} {
		stream, err := b.js.Stream(ctx, name) // which asks the server
		if err != nil {
			return Backlog{}, err
		}
		info := stream.CachedInfo()
		backlog.Streams[name] = fill(info)
		if info.State.Msgs > 0 {
			*queue = Queue{Messages: info.State.Msgs, Oldest: info.State.FirstTime}
		}
	}
	stream, err := b.js.Stream(ctx, FanoutStream)
	if err != nil {
		return Backlog{}, err
	}
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(fanoutPrefix+">"))
	if err != nil {
		return Backlog{}, err
	}
	backlog.Streams[FanoutStream] = fill(info)
	backlog.Tasks, err = b.tasks(ctx, info.State)
	return backlog, err
}

// tasks returns the queues of the lanes in the stream of tasks.
func (b *Bus) tasks(ctx context.Context, state jetstream.StreamState) (map[event.Lane]Queue, error) {
	waiting := make(map[string]uint64)
	for subject, n := range state.Subjects {
		lane, _, _ := strings.Cut(strings.TrimPrefix(subject, fanoutPrefix), ".")
		waiting[lane] += n
	}
	queues := make(map[event.Lane]Queue)
	for _, lane := range event.Lanes() {
		queue := Queue{Messages: waiting[string(lane)]}
		if queue.Messages > 0 {
			oldest, err := b.read(ctx, FanoutStream, fanoutPrefix+string(lane)+".*", state.FirstSeq, 1)
			if err != nil {
				return nil, err
			}
			if len(oldest) > 0 { // or they are done by now
				queue.Oldest = oldest[0].Stored
			}
		}
		queues[lane] = queue
	}
	return queues, nil
}

func fill(info *jetstream.StreamInfo) Fill {
	f := Fill{Bytes: info.State.Bytes}
	if info.Config.MaxBytes > 0 {
		f.Limit = uint64(info.Config.MaxBytes)
	}
	return f
}

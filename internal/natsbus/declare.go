package natsbus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/fanmail/fanmail/internal/panics"
	"github.com/fanmail/fanmail/pkg/event"
)

const (
	// duplicateWindow is how long a message id suppresses repeats. It is longer than a publisher's retries take. A longer
	// window would cost memory, because the server keeps every id in it.
	duplicateWindow = 2 * time.Minute
	// routerAckPending is the largest number of published events that all routers together hold. It is enough for 64 routers. Events that were
	// handed back count until the server hands them out again, and enough of them would stop all routers.
	routerAckPending = 65_536
	// rehydratorAckPending is the largest number of logins that all rehydrators together hold. It is enough for many rehydrators
	// with more than a hundred logins each.
	rehydratorAckPending = 2048
	// maxLoginBytes is the largest size of a login. Logins come from other systems, and a malformed login has to fit into a dead letter.
	maxLoginBytes = 64 << 10
	// declareConcurrency bounds the concurrent requests, because there are up to 2 × 256 consumers to declare.
	declareConcurrency = 16
)

// source is a consumer and its stream.
type source struct {
	stream   string
	consumer jetstream.ConsumerConfig
}

// source returns a consumer whose holders together have at most pending messages that they have not acknowledged.
func (b *Bus) source(stream, name, description string, pending int) source {
	return source{stream, jetstream.ConsumerConfig{
		Durable:       name,
		Description:   description,
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       b.opts.Lease,
		MaxDeliver:    -1, // a work queue would keep a message above the limit permanently, and never hand it out
		MaxAckPending: pending,
	}}
}

func (b *Bus) publishedSource() source {
	return b.source(PublishedStream, routerConsumer, "Routers: each published event goes to one of them.", routerAckPending)
}

func (b *Bus) loginSource() source {
	return b.source(LoginStream, rehydratorConsumer, "Rehydrators: each login goes to one of them.", rehydratorAckPending)
}

func (b *Bus) taskSource(lane event.Lane, partition int) source {
	const pending = 1 // one holder at a time; with more, the server would deal tasks to several workers
	s := b.source(FanoutStream, taskConsumer(lane, partition), "Deliverers: who holds its task holds the partition in this lane.", pending)
	s.consumer.FilterSubject = taskSubject(lane, partition)
	return s
}

// streams returns the streams of Fanmail.
func (b *Bus) streams() []jetstream.StreamConfig {
	stream := func(name, description, subject string, bytes int64) jetstream.StreamConfig {
		return jetstream.StreamConfig{
			Name: name, Description: description, Subjects: []string{subject}, MaxBytes: bytes,
			Retention:  jetstream.WorkQueuePolicy,
			Storage:    jetstream.FileStorage,
			Discard:    jetstream.DiscardNew,
			Replicas:   b.opts.Replicas,
			Duplicates: duplicateWindow,
		}
	}
	published := stream(PublishedStream, "Messages that are stored and not yet routed.", publishedSubject, b.opts.PublishedBytes)
	published.AllowDirect = true // OldestPublished reads with a direct get
	fanout := stream(FanoutStream, "Fan-out tasks that are not done.", fanoutPrefix+"*.*", b.opts.FanoutBytes)
	fanout.AllowDirect = true // Held.Waiting reads with direct gets
	login := stream(LoginStream, "Users who have logged in, which is not noted yet.", loginSubject, b.opts.LoginBytes)
	login.MaxMsgSize = maxLoginBytes
	dead := stream(DeadLetterStream, "Work that cannot succeed.", deadLetterPrefix+">", b.opts.DeadLetterBytes)
	dead.Retention = jetstream.LimitsPolicy
	dead.AllowDirect = true
	return []jetstream.StreamConfig{published, fanout, login, dead}
}

// declare creates the streams and consumers that do not exist on the server, and updates the consumers that differ. Any number of processes may call it at the same time.
func (b *Bus) declare(ctx context.Context) error {
	if err := b.declareStreams(ctx); err != nil {
		return err
	}
	sources := []source{b.publishedSource(), b.loginSource()}
	for _, lane := range event.Lanes() {
		for partition := range b.opts.Partitions {
			sources = append(sources, b.taskSource(lane, partition))
		}
	}
	have, err := b.consumers(ctx)
	if err != nil {
		return classify(ctx, "list consumers", err)
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(declareConcurrency)
	for _, src := range sources {
		if declared(have[src.consumer.Durable], src.consumer) {
			continue
		}
		g.Go(func() (err error) {
			defer panics.Catch(&err)
			return b.declareConsumer(gctx, src)
		})
	}
	return g.Wait()
}

// consumers returns the consumers of the work queues by their names, of which no two streams share one.
func (b *Bus) consumers(ctx context.Context) (map[string]jetstream.ConsumerConfig, error) {
	have := make(map[string]jetstream.ConsumerConfig)
	for _, name := range []string{PublishedStream, LoginStream, FanoutStream} {
		stream, err := b.js.Stream(ctx, name)
		if err != nil {
			return nil, err
		}
		list := stream.ListConsumers(ctx)
		for info := range list.Info() {
			have[info.Name] = info.Config
		}
		if err := list.Err(); err != nil {
			return nil, err
		}
	}
	return have, nil
}

// declared reports whether a consumer is as wanted. The server has set what a source leaves out.
func declared(have, want jetstream.ConsumerConfig) bool {
	return have.Durable == want.Durable && have.Description == want.Description && have.FilterSubject == want.FilterSubject &&
		have.AckPolicy == want.AckPolicy && have.AckWait == want.AckWait &&
		have.MaxDeliver == want.MaxDeliver && have.MaxAckPending == want.MaxAckPending
}

func (b *Bus) declareStreams(ctx context.Context) error {
	for _, cfg := range b.streams() {
		if err := b.declareStream(ctx, cfg); err != nil {
			return err
		}
	}
	return nil
}

func (b *Bus) declareStream(ctx context.Context, want jetstream.StreamConfig) error {
	doing := "declare stream " + want.Name
	stream, err := b.js.Stream(ctx, want.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		stream, err = b.createStream(ctx, want)
	}
	if err != nil {
		return classify(ctx, doing, err)
	}
	have := stream.CachedInfo().Config
	if err := compatible(have, want); err != nil {
		return err
	}
	unlimited := have.MaxBytes <= 0
	if (unlimited || have.MaxBytes >= want.MaxBytes) && have.Replicas >= want.Replicas && (have.AllowDirect || !want.AllowDirect) {
		return nil
	}
	// An operator may have made the stream larger than the configuration of this process says. So limits are only raised.
	if !unlimited {
		have.MaxBytes = max(have.MaxBytes, want.MaxBytes)
	}
	have.Replicas = max(have.Replicas, want.Replicas)
	have.AllowDirect = have.AllowDirect || want.AllowDirect
	_, err = b.js.UpdateStream(ctx, have)
	return classify(ctx, doing, err)
}

// createStream creates a stream that did not exist when declare looked. The server checks for room before it checks whether the stream
// exists. So if another process has created the stream meanwhile, the server may report that there is no room.
func (b *Bus) createStream(ctx context.Context, want jetstream.StreamConfig) (jetstream.Stream, error) {
	stream, err := b.js.CreateStream(ctx, want)
	if err == nil {
		return stream, nil
	}
	if stream, lookErr := b.js.Stream(ctx, want.Name); lookErr == nil {
		return stream, nil
	}
	return nil, err
}

// compatible returns an error if an existing stream differs from the wanted stream in a setting that changes its behaviour.
func compatible(have, want jetstream.StreamConfig) error {
	switch {
	case !slices.Equal(have.Subjects, want.Subjects):
		return incompatible(want.Name, "subjects", have.Subjects, want.Subjects)
	case have.Retention != want.Retention:
		return incompatible(want.Name, "retention", have.Retention, want.Retention)
	case have.Discard != want.Discard:
		return incompatible(want.Name, "discard", have.Discard, want.Discard)
	case have.Storage != want.Storage:
		return incompatible(want.Name, "storage", have.Storage, want.Storage)
	}
	return nil
}

func incompatible(stream, setting string, have, want any) error {
	return fmt.Errorf("natsbus: stream %s: %w: its %s is %v and has to be %v: correct or remove the stream",
		stream, ErrIncompatible, setting, have, want)
}

func (b *Bus) declareConsumer(ctx context.Context, src source) error {
	_, err := b.js.CreateOrUpdateConsumer(ctx, src.stream, src.consumer)
	return classify(ctx, "declare consumer "+src.stream+" "+src.consumer.Durable, err)
}

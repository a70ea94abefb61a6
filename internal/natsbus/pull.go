package natsbus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// pullExpires is how long the server keeps a request for one message.
	pullExpires = 30 * time.Second
	// pullHeartbeat is the time between two heartbeats, which say that the server still has the request. After two missing
	// heartbeats the request counts as lost.
	pullHeartbeat = 5 * time.Second
	// moreWait bounds the wait for the messages after the first. It rarely passes, because the server says when there are no
	// more messages.
	moreWait = time.Second

	// pollWait bounds how long a poll waits for an answer. It is long for an answer, and short for the workers that wait behind it.
	pollWait = 25 * time.Millisecond

	minBackoff = 50 * time.Millisecond
	maxBackoff = 5 * time.Second
)

// pullRequest is the request of the JetStream API for the next messages of a consumer.
type pullRequest struct {
	Batch     int           `json:"batch"`
	Expires   time.Duration `json:"expires,omitempty"`
	Heartbeat time.Duration `json:"idle_heartbeat,omitempty"`
	NoWait    bool          `json:"no_wait,omitempty"`
}

// errSilent means that the heartbeats of a request have stopped.
var errSilent = errors.New("the server sends no heartbeats")

// pull waits for the next message of a consumer. It tries again after every failure of the server. It returns an error only
// when ctx has ended or the bus is closed.
func (b *Bus) pull(ctx context.Context, src source) (*nats.Msg, error) {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = minBackoff, maxBackoff
	for {
		reconnected := b.reconnected.next()
		msg, err := b.pullOnce(ctx, src, reconnected)
		switch {
		case msg != nil:
			return msg, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, nats.ErrConnectionClosed):
			return nil, err
		case err == nil:
			pause.Reset()
			continue
		}
		// The lost connection is already logged, once for all consumers.
		if b.nc.IsConnected() {
			b.complaints.Warn().Err(err).Str("consumer", src.consumer.Durable).Msg("cannot take from the bus, trying again")
		}
		timer := time.NewTimer(pause.NextBackOff())
		select {
		case <-timer.C:
		case <-reconnected:
		case <-b.closed:
		case <-ctx.Done():
		}
		timer.Stop()
		if isMissing(err) {
			b.restore(ctx, src)
		}
	}
}

// pullOnce makes one request. It returns nil and no error if the request ends without a message.
func (b *Bus) pullOnce(ctx context.Context, src source, reconnected <-chan struct{}) (*nats.Msg, error) {
	in, err := b.openInbox(1)
	if err != nil {
		return nil, err
	}
	defer in.close()
	request := pullRequest{Batch: 1, Expires: pullExpires, Heartbeat: pullHeartbeat}
	if err := in.request(src, request); err != nil {
		return nil, err
	}
	silence := time.NewTimer(2 * pullHeartbeat)
	defer silence.Stop()
	for {
		select {
		case msg := <-in.msgs:
			switch status(msg) {
			case statusNone:
				return msg, nil
			case statusHeartbeat:
				silence.Reset(2 * pullHeartbeat)
			case statusExpired:
				return nil, nil
			default:
				return nil, newStatusError(msg)
			}
		case <-silence.C:
			return first(in.abandon()), errSilent
		case <-reconnected: // the server may have forgotten the request
			return first(in.abandon()), nil
		case <-b.closed:
			return nil, nats.ErrConnectionClosed
		case <-ctx.Done():
			b.returnUnused(ctx, src, in.abandon())
			return nil, ctx.Err()
		}
	}
}

// returnUnused hands back messages that arrived after their caller had gone. For a task that is no attempt.
func (b *Bus) returnUnused(ctx context.Context, src source, msgs []*nats.Msg) {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), b.opts.RequestTimeout)
	defer cancel()
	for _, msg := range msgs {
		if src.stream != FanoutStream {
			b.release(msg)
		} else if err := b.giveBack(bounded, msg); err != nil {
			b.complaints.Warn().Err(err).Str("subject", msg.Subject).Msg("cannot hand a message back to the bus")
		}
	}
}

// poll returns the next message of a consumer, or nil if there is none within the given time. With 0 it asks for a message that is
// there now. The server says if there is none, but keeps the request while another caller holds the consumer's only message. After
// a failure poll returns nil, because the next pull meets the failure again.
func (b *Bus) poll(ctx context.Context, src source, wait time.Duration) *nats.Msg {
	in, err := b.openInbox(1)
	if err != nil {
		return nil
	}
	defer in.close()
	if err := in.request(src, pullRequest{Batch: 1, NoWait: wait == 0, Expires: wait}); err != nil {
		return nil
	}
	timer := time.NewTimer(wait + pollWait)
	defer timer.Stop()
	select {
	case msg := <-in.msgs:
		if status(msg) == statusNone {
			return msg
		}
		return nil
	case <-timer.C:
		return first(in.abandon())
	case <-b.closed:
		return nil
	case <-ctx.Done():
		b.returnUnused(ctx, src, in.abandon())
		return nil
	}
}

// pullMore returns at most limit messages that a consumer has now. After a failure it returns the messages that have arrived,
// because the next pull meets the failure again.
func (b *Bus) pullMore(ctx context.Context, src source, limit int) []*nats.Msg {
	in, err := b.openInbox(limit)
	if err != nil {
		return nil
	}
	defer in.close()
	if err := in.request(src, pullRequest{Batch: limit, NoWait: true}); err != nil {
		return nil
	}
	timer := time.NewTimer(moreWait)
	defer timer.Stop()
	var got []*nats.Msg
	for len(got) < limit {
		select {
		case msg := <-in.msgs:
			if status(msg) != statusNone {
				return got
			}
			got = append(got, msg)
		case <-timer.C:
			return append(got, in.abandon()...)
		case <-ctx.Done():
			return append(got, in.abandon()...)
		}
	}
	return got
}

// restore declares a consumer again that was deleted, or whose server has lost its streams. A server that stops looks the same, and takes
// the request with it: the next connection ends the wait for an answer that never comes.
func (b *Bus) restore(ctx context.Context, src source) {
	ctx, cancel := b.withinConnection(ctx)
	defer cancel()
	err := b.declareConsumer(ctx, src)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		if err = b.declareStreams(ctx); err == nil {
			err = b.declareConsumer(ctx, src)
		}
	}
	switch {
	case err == nil:
		b.complaints.Info().Str("consumer", src.consumer.Durable).Msg("declared the consumer again")
	case ctx.Err() == nil:
		b.complaints.Warn().Err(err).Str("consumer", src.consumer.Durable).Msg("cannot declare the consumer again")
	}
}

// withinConnection returns a context that ends at the next reconnect, or after RequestTimeout. The caller must cancel it.
func (b *Bus) withinConnection(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, b.opts.RequestTimeout)
	reconnected := b.reconnected.next()
	go func() {
		select {
		case <-reconnected:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// release hands a message back. The server hands it out again at once.
func (b *Bus) release(msg *nats.Msg) {
	// After a failure the server hands the message out when its lease has ended.
	if err := b.nc.Publish(msg.Reply, ackRelease); err != nil {
		b.complaints.Warn().Err(err).Str("subject", msg.Subject).Msg("cannot hand a message back to the bus")
	}
}

// request sends a request whose answers go to the inbox.
func (in *inbox) request(src source, request pullRequest) error {
	data, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("encode request: %w", err)
	}
	return in.nc.PublishRequest("$JS.API.CONSUMER.MSG.NEXT."+src.stream+"."+src.consumer.Durable, in.sub.Subject, data)
}

func first(msgs []*nats.Msg) *nats.Msg {
	if len(msgs) == 0 {
		return nil
	}
	return msgs[0]
}

// isMissing reports whether a request failed because the consumer does not exist.
func isMissing(err error) bool {
	status, ok := errors.AsType[*statusError](err)
	return ok && (status.code == statusNoResponders || status.description == "Consumer Deleted")
}

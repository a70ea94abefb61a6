package fanout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/internal/panics"
	"github.com/fanmail/fanmail/internal/startstop"
	"github.com/fanmail/fanmail/internal/tracing"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
)

const (
	// headStartsTogether is how many head starts a worker handles together.
	headStartsTogether = 64
	// ownersTogether is how many inboxes a worker appends to by one call. It is so small that the embedded store does not make the call
	// wait as a part of a large fan-out.
	ownersTogether = 50
	// headStartPause is after what time the bus hands out a head start again whose delivery failed.
	headStartPause = time.Second
)

// RunFirst delivers head starts until intake ends. It is one worker beside those of the lanes: it takes none of their worker slots.
func (d *Deliverer) RunFirst(intake, processing context.Context, fetch func(ctx context.Context, limit int) ([]bus.Received, error)) {
	for intake.Err() == nil {
		received, err := fetch(intake, headStartsTogether)
		switch {
		case err == nil:
			d.DeliverFirst(processing, received)
		case intake.Err() == nil:
			d.opts.Logger.Error().Err(err).Msg("fetching head starts failed: trying again")
			startstop.Pause(intake, time.Second)
		}
	}
}

// DeliverFirst appends messages to the inboxes of the recipients that head starts name, and removes the head starts from the queue. It
// delivers what the scan would deliver, and nothing else. It writes no progress, counts nobody, and files no dead letter: the scan does that when
// it comes to the same recipients. If the store fails, the bus hands the head starts out again. A head start that cannot succeed, or on which
// the code panics, is dropped.
func (d *Deliverer) DeliverFirst(ctx context.Context, received []bus.Received) {
	together := d.headStart(ctx, received)
	d.recordPanic(together, received[0].Delivery())
	for i, item := range received {
		err := together
		if len(received) > 1 && permanentOrPanic(together) {
			err = d.headStart(ctx, received[i:i+1])
		}
		d.endHeadStart(ctx, item, err)
	}
}

// permanentOrPanic reports whether work that ended with err is not worth another try of the same kind.
func permanentOrPanic(err error) bool {
	action := Classify(err)
	return action == DeadLetter || action == HandBack
}

// endHeadStart removes a head start from the queue, or hands it back if its delivery failed with a temporary error.
func (d *Deliverer) endHeadStart(ctx context.Context, item bus.Received, err error) {
	delivery := item.Delivery()
	d.recordPanic(err, delivery)
	var ended error
	switch {
	case err == nil:
		ended = item.Ack()
	case permanentOrPanic(err):
		d.metrics.headStarts.drop(err)
		logDelivery(d.opts.Logger.Warn().Err(err), delivery).Msg("a head start was dropped: its recipients wait for the scan")
		ended = item.Ack()
	default:
		d.metrics.retries.Inc()
		if ctx.Err() == nil {
			logDelivery(d.opts.Logger.Warn().Err(err), delivery).Msg("a head start failed: the bus hands it out again")
		}
		ended = item.Release(headStartPause)
	}
	if ended != nil {
		logDelivery(d.opts.Logger.Warn().Err(ended), delivery).Msg("a head start failed: the bus hands it out again")
	}
}

// first is the messages of head starts for one owner.
type first struct {
	owner    message.UserID
	messages []firstMessage
}

// firstMessage is a message in a head start.
type firstMessage struct {
	message message.Message
	lane    event.Lane
}

// headStart delivers head starts together.
func (d *Deliverer) headStart(ctx context.Context, received []bus.Received) (err error) {
	deliveries := make([]event.Delivery, len(received))
	for i, item := range received {
		deliveries[i] = item.Delivery()
	}
	ctx, span := d.startSpan(ctx, "head start", deliveries)
	defer func() { span.Done(err) }()
	defer panics.Catch(&err)
	starts := make([]event.HeadStart, len(received))
	var refs []message.Ref // each once, because a message has a head start in each partition
	places := make(map[message.Ref]int)
	for i, delivery := range deliveries {
		if starts[i], err = event.DecodeHeadStart(delivery.Payload); err != nil {
			return err
		}
		if ref := starts[i].Ref(); !slices.Contains(refs, ref) {
			places[ref] = len(refs)
			refs = append(refs, ref)
		}
	}
	describeHeadStarts(span, refs)
	found, err := d.stores.Messages.GetMany(ctx, refs)
	if err != nil {
		return fmt.Errorf("read messages: %w", err)
	}
	owners := make(map[message.UserID][]firstMessage)
	for _, start := range starts {
		stored, err := found[places[start.Ref()]].Stored, found[places[start.Ref()]].Err
		switch {
		case errors.Is(err, message.ErrNotFound):
			continue
		case err != nil:
			return fmt.Errorf("message %s: %w", start.ID, err)
		}
		for _, user := range start.Recipients {
			owners[user] = append(owners[user], firstMessage{stored.Message, start.Lane})
		}
	}
	for some := range slices.Chunk(slices.Sorted(maps.Keys(owners)), ownersTogether) {
		chunk := make([]first, len(some))
		for i, owner := range some {
			chunk[i] = first{owner, owners[owner]}
		}
		if err := d.appendFirst(ctx, chunk); err != nil {
			return err
		}
	}
	return nil
}

// describeHeadStarts adds to the span of head starts which messages they deliver.
func describeHeadStarts(span trace.Span, refs []message.Ref) {
	if !span.IsRecording() {
		return
	}
	ids := make([]string, min(len(refs), tracing.ListMax))
	for i := range ids {
		ids[i] = refs[i].ID.String()
	}
	span.SetAttributes(tracing.Messages.Int(len(refs)), tracing.MessageIDs.StringSlice(ids))
}

// appendFirst appends to the inboxes of owners the messages that are for them, as the scan does.
func (d *Deliverer) appendFirst(ctx context.Context, chunk []first) error {
	if err := d.keepAddressed(ctx, chunk); err != nil {
		return err
	}
	owners := make([]message.UserID, len(chunk))
	for i, f := range chunk {
		owners[i] = f.owner
	}
	// The states and edges are read after the messages were stored, as in a batch.
	looked, err := d.stores.Users.Lookup(ctx, owners)
	if err != nil {
		return fmt.Errorf("look up users: %w", err)
	}
	rules := d.opts.Rules()
	var appends []bucket.Append
	var delivered [][]firstMessage
	for i, f := range chunk {
		if looked[i].Err != nil {
			continue // the scan files the dead letter
		}
		kept := slices.DeleteFunc(f.messages, func(m firstMessage) bool { return !rules.Deliver(looked[i].State, m.message.Sent()) })
		if len(kept) == 0 {
			continue
		}
		entries := make([]bucket.Entry, len(kept))
		for k, m := range kept {
			entries[k] = bucket.EntryOf(m.message)
		}
		appends = append(appends, bucket.Append{Owner: f.owner, Hint: looked[i].State.Head, Entries: entries})
		delivered = append(delivered, kept)
	}
	if len(appends) == 0 {
		return nil
	}
	// The scan repeats the append and makes it durable.
	results, err := d.stores.Appender.AppendLazily(ctx, appends)
	if err != nil {
		return fmt.Errorf("append: %w", err)
	}
	for i, result := range results {
		if isDamaged(result.Err) {
			continue
		}
		if result.Err != nil {
			err = fmt.Errorf("inbox of %s: %w", appends[i].Owner, result.Err)
			continue
		}
		d.measureFirst(delivered[i], result.New)
	}
	return err
}

// keepAddressed keeps the messages that are for each owner, ascending by id and each once.
func (d *Deliverer) keepAddressed(ctx context.Context, chunk []first) error {
	var pairs []follow.Pair
	for i, f := range chunk {
		slices.SortFunc(f.messages, func(x, y firstMessage) int { return x.message.ID.Compare(y.message.ID) })
		chunk[i].messages = slices.CompactFunc(f.messages, func(x, y firstMessage) bool { return x.message.ID == y.message.ID })
		for _, m := range chunk[i].messages {
			pairs = append(pairs, follow.Pairs(m.message, f.owner)...)
		}
	}
	edges := make(map[follow.Pair]follow.Edge)
	slices.SortFunc(pairs, func(x, y follow.Pair) int {
		return cmp.Or(cmp.Compare(x.Follower, y.Follower), cmp.Compare(x.Followee, y.Followee))
	})
	if pairs = slices.Compact(pairs); len(pairs) > 0 {
		found, err := d.stores.Edges.Get(ctx, pairs)
		if err != nil {
			return fmt.Errorf("read edges: %w", err)
		}
		for i, pair := range pairs {
			edges[pair] = found[i]
		}
	}
	for i, f := range chunk {
		chunk[i].messages = slices.DeleteFunc(f.messages, func(m firstMessage) bool {
			var own []follow.Edge
			for _, pair := range follow.Pairs(m.message, f.owner) {
				own = append(own, edges[pair])
			}
			return !follow.ForAny(m.message, f.owner, own)
		})
	}
	return nil
}

// measureFirst counts the messages that a head start has appended to one inbox. The store says only how many are new: of several, the first ones
// count.
func (d *Deliverer) measureFirst(delivered []firstMessage, appended int) {
	now := d.opts.Now()
	for _, m := range delivered[:appended] {
		d.metrics.lanes[m.lane].deliveries.Inc()
		d.metrics.lanes[m.lane].headStarts.Inc()
		d.metrics.firstWait.Observe(now.Sub(m.message.Sent()).Seconds())
	}
}

// headStarted returns how many entries of an append a head start may have appended before. These are the messages that name the owner
// beside an audience, and bulk messages if the owner is a viewer.
func (b *batch) headStarted(owner message.UserID, jobs []*job) (n int) {
	for _, j := range jobs {
		if j.task.Lane == event.Express || !j.message.Broadcast() {
			continue
		}
		if j.message.Names(owner) || j.task.Lane == event.Bulk && b.deliverer.opts.isViewer(owner) {
			n++
		}
	}
	return n
}

// Package publish accepts messages: it validates them, stores each once, and emits an event for the fan-out.
//
// A message is accepted when it is stored. If the event does not reach the bus, the resumer finds the message and emits it
// again. So publishers get their answer as soon as the store has the message.
package publish

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/internal/identities"
	"github.com/fanmail/fanmail/internal/tally"
	"github.com/fanmail/fanmail/internal/tracing"
	"github.com/fanmail/fanmail/pkg/attribute"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/identity"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

var (
	// ErrBusy means that the bus has refused events within the last RetryAfter. Nothing was stored. Try again after RetryAfter.
	ErrBusy = errors.New("no messages are accepted at the moment: the event bus is full or away")
	// ErrLate means that the store was too slow for each of maxTries attempts, so that every stored message is void. Try again after
	// RetryAfter.
	ErrLate = errors.New("the store took too long: the message was not published")
	// ErrBehind is ErrLate because this process's clock is behind the store's, so that the store finds every message late.
	ErrBehind = fmt.Errorf("%w, because the publisher's clock is behind the store's", ErrLate)
	// ErrAhead means that this process's clock is ahead of the store's clock by more than the tolerance, so the message is void. Publish
	// does not try another id of the same clock. As soon as the clock is right, the client may repeat the request with the same
	// idempotency key.
	ErrAhead = errors.New("the publisher's clock is ahead of the store's: the message was not published")
)

// RetryAfter is how long a client should wait after ErrBusy, ErrLate and ErrAhead.
const RetryAfter = time.Second

// maxTries is how often Publish stores a message before it returns ErrLate. Each try has a new id.
const maxTries = 3

// Options configures a Service.
type Options struct {
	Limits message.Limits
	// Identities finds users by their identities. Requests without identities do not need it.
	Identities *identities.Service
	// Rules returns the rules that hold now.
	Rules func() userstate.Rules
	// KeyTTL returns for how long an idempotency key that is reserved now is remembered.
	KeyTTL func() time.Duration
	// Unknown returns those of the topics that do not exist. Without it there are none that do.
	Unknown func(ctx context.Context, topics []message.Topic) ([]message.Topic, error)
	// Blocks returns, for each of the pairs, whether its follower blocks its followee. Without it there are no blocks.
	Blocks func(ctx context.Context, pairs []follow.Pair) (map[follow.Pair]bool, error)
	// Attributes returns the attributes that are declared now. Without it there are none.
	Attributes func() attribute.Set
	Now        func() time.Time
	// Random is the source of the random bits of ids.
	Random io.Reader
	Logger zerolog.Logger
	Tracer tracing.Tracer
	// Metrics is the registry of the metrics; nil means none.
	Metrics prometheus.Registerer
	// Tally counts accepted messages; nil counts nothing.
	Tally *tally.Tally
}

// Request asks for one message to be published.
type Request struct {
	Draft message.Draft
	// Key is an idempotency key, or empty. A request with the same sender and key as an earlier request returns the message of the
	// earlier request.
	Key string
	// Line is the request's line in a batch with the key, from 1; 0 is a single request. Requests of different lines have different keys.
	Line int
	// MayAddress reports whether the client may address identities of a kind. A nil MayAddress allows none.
	MayAddress func(kind string) bool
}

// Result is the result of a Request.
type Result struct {
	Message message.Message
	// Err is nil, a *message.InvalidError, message.ErrKeyReused, ErrBusy, ErrLate, ErrAhead, or an error of the store.
	Err error
}

// Service publishes messages. It is safe for concurrent use.
type Service struct {
	messages message.Store
	keys     message.KeyStore
	bus      bus.Publisher
	ids      *message.Generator
	opts     Options
	metrics  metrics

	// busyUntil is the earliest time of the next attempt to use the bus, in Unix nanoseconds.
	busyUntil atomic.Int64
}

// New returns a Service.
func New(messages message.Store, keys message.KeyStore, bus bus.Publisher, opts Options) *Service {
	if opts.Attributes == nil {
		opts.Attributes = func() attribute.Set { return attribute.Set{} }
	}
	return &Service{
		messages: messages, keys: keys, bus: bus, ids: message.NewGenerator(opts.Now, opts.Random), opts: opts, metrics: newMetrics(opts.Metrics),
	}
}

// attempt is one try to store a request.
type attempt struct {
	request    Request
	identities []identity.Identity // those of the draft, in canonical form
	result     *Result
	key        message.Key    // the reserved key; zero without an idempotency key
	repeated   bool           // an earlier request reserved the key
	digest     message.Digest // of the request, with identities instead of their users
	refused    error          // a declared attribute has a value that is not allowed: if the message is new, this is its result
	resolved   bool           // it is known whether the message is allowed, and to whom it goes
	// issued is the newest id that this call has issued for the attempt. If an earlier request reserved the key, the message has the
	// id of that request instead.
	issued message.ID
	void   error // the reason why the last id was void
}

// Publish publishes messages, each independently, and returns the results in their order. New ids rise in that order; an id that an
// idempotency key reserved earlier is older. A message whose result has no error is stored durably.
func (s *Service) Publish(ctx context.Context, requests []Request) []Result {
	ctx, span := s.opts.Tracer.Start(ctx, "publish")
	defer span.End()
	began := s.opts.Now()
	rules := s.opts.Rules()
	results := make([]Result, len(requests))
	defer func() { s.metrics.count(results, s.opts.Now().Sub(began)) }()
	attempts := s.prepare(requests, results)
	if s.busy() {
		for _, a := range attempts {
			a.result.Err = ErrBusy
		}
		return results
	}
	attempts = s.leaveOut(ctx, s.resolve(ctx, s.reserveAll(ctx, s.resolveFresh(ctx, attempts))))
	for range maxTries {
		if attempts = s.store(ctx, attempts, rules); len(attempts) == 0 {
			break
		}
	}
	for _, a := range attempts {
		a.result.Err = a.void
	}
	s.emit(ctx, results)
	return results
}

// prepare makes a message with a new id for each request. It returns an attempt for each valid request, and sets the result's error
// of the others.
func (s *Service) prepare(requests []Request, results []Result) []*attempt {
	attempts := make([]*attempt, 0, len(requests))
	declared := s.opts.Attributes()
	for i, r := range requests {
		result := &results[i]
		id, err := s.ids.Next()
		if err == nil {
			result.Message, err = message.New(id, r.Draft, s.opts.Limits)
		}
		var ids []identity.Identity
		if err == nil {
			ids, err = s.canonical(r.Draft)
		}
		if result.Err = err; err == nil {
			_, refused := declared.Check(result.Message.Attrs)
			attempts = append(attempts, &attempt{
				request: r, identities: ids, digest: digest(result.Message, keys(ids)), result: result, issued: id, refused: refused,
			})
		}
	}
	return attempts
}

// store inserts the messages of attempts. It returns the attempts to repeat: their message was void, and now has a new id.
func (s *Service) store(ctx context.Context, attempts []*attempt, rules userstate.Rules) []*attempt {
	if len(attempts) == 0 {
		return nil
	}
	messages := make([]message.Message, 0, len(attempts))
	place := make(map[message.ID]int, len(attempts)) // requests with the same key have the same id
	issued := make(map[message.ID]bool, len(attempts))
	for _, a := range attempts {
		m := a.result.Message
		issued[a.issued] = true
		if _, ok := place[m.ID]; !ok {
			place[m.ID] = len(messages)
			messages = append(messages, m)
		}
	}
	stamps, err := s.insert(ctx, messages, rules.Timing())
	if err != nil {
		for _, a := range attempts {
			a.result.Err = fmt.Errorf("publish: %w", err)
		}
		return nil
	}
	var again []*attempt
	var ahead []message.Stored
	var done tally.Counters
	for _, a := range attempts {
		stored := message.Stored{Message: a.result.Message, Stamp: stamps[place[a.result.Message.ID]]}
		switch {
		case !stored.Void:
			if !a.repeated {
				done.Accepted++
				done.Skipped.Blocked += int64(stored.Blocked)
			}
			continue
		case stored.FromFuture() && issued[stored.ID]:
			ahead = append(ahead, stored)
			a.result.Err = ErrAhead
			continue
		case stored.FromFuture(): // an earlier request reserved the id: its clock was ahead, and this clock may be right
			a.void = ErrAhead
		default:
			a.void = ErrLate
			behind := max(0, stored.StoredAt.Sub(s.opts.Now())) // the store stamped it before now
			if behind > rules.PublishSlack/2 {
				a.void = ErrBehind
			}
			s.opts.Logger.Warn().Stringer("message_id", stored.ID).Str("from", string(stored.From)).
				Stringer("after", stored.StoredAt.Sub(stored.Sent())).Float64("behind_seconds", behind.Seconds()).
				Msg("message was stored too late and is void: publishing it under a new id")
		}
		if a.result.Err = s.renew(ctx, a); a.result.Err == nil {
			again = append(again, a)
		}
	}
	s.opts.Tally.Add(done)
	s.logAhead(ahead)
	return again
}

// logAhead logs, in one line, the messages that are void because this process's clock is ahead.
func (s *Service) logAhead(void []message.Stored) {
	if len(void) == 0 {
		return
	}
	ids := make([]string, len(void))
	for i, m := range void {
		ids[i] = m.ID.String()
	}
	s.opts.Logger.Error().Strs("message_ids", ids).Int("messages", len(ids)).Stringer("ahead", void[0].Sent().Sub(void[0].StoredAt)).
		Msg("the clock of this host is ahead of the store's: messages were not published")
}

// renew gives a void message a new id.
func (s *Service) renew(ctx context.Context, a *attempt) error {
	id, err := s.ids.Next()
	if err != nil {
		return err
	}
	a.issued = id
	if a.key.Key != "" {
		return s.rekey(ctx, a, id)
	}
	a.result.Message.ID = id
	return nil
}

// insert stores messages.
func (s *Service) insert(ctx context.Context, messages []message.Message, timing message.Timing) (stamps []message.Stamp, err error) {
	ctx, span := s.opts.Tracer.Start(ctx, "store messages")
	defer func() { span.Done(err) }()
	if span.IsRecording() {
		span.SetAttributes(tracing.Messages.Int(len(messages)))
	}
	return s.messages.Insert(ctx, messages, timing)
}

func (s *Service) emit(ctx context.Context, results []Result) {
	var events []event.Published
	for _, r := range results {
		if r.Err == nil {
			published := event.NewPublished(r.Message.Ref())
			published.Memory = r.Message.Memory()
			events = append(events, published)
		}
	}
	if len(events) == 0 {
		return
	}
	ctx, span := s.opts.Tracer.Start(ctx, "emit published", producer)
	s.trace(ctx, span, events)
	// The messages are stored, so their events are emitted even if the client has disconnected.
	ctx = context.WithoutCancel(ctx)
	err := s.bus.EmitPublished(ctx, events, false)
	span.Done(err)
	if err != nil {
		s.metrics.unemitted.Add(float64(len(events)))
		s.busyUntil.Store(s.opts.Now().Add(RetryAfter).UnixNano())
		s.opts.Logger.Error().Err(err).Strs("message_ids", ids(events)).Int("messages", len(events)).
			Msg("messages are stored but their events were not emitted: the resumer will emit them")
	}
}

// busy reports whether the bus has refused events within the last RetryAfter. A longer wait means that the clock was set back.
func (s *Service) busy() bool {
	left := time.Duration(s.busyUntil.Load() - s.opts.Now().UnixNano())
	return left > 0 && left <= RetryAfter
}

package fanout

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/fanmail/fanmail/internal/panics"
	"github.com/fanmail/fanmail/pkg/message"
)

const (
	// leastPatience is the least time that a call of the store gets, unless Options.Patience is longer. Where calls take longer anyway, it is patienceFactor times as much as the last
	// one took. A call that touches a shard that is away would otherwise take as long as the store lets it, and everybody in it would wait.
	leastPatience  = time.Second
	patienceFactor = 16
	// mostPatience bounds by how much calls may become slower at once.
	mostPatience = 16 * time.Second
	// aloneAtOnce bounds the calls for single keys. Each may hold a connection to a shard that is away.
	aloneAtOnce = 64
	// alonePart is which part of the patience each of these calls gets: so in all, four times as many can be tried.
	alonePart = 4
	// troubleLasts is for how long nothing is tried together after a key was missed.
	troubleLasts = 2 * time.Second
	// A key that could not be reached is passed over. Every probeEvery, probes of them are tried. When one succeeds, all others are tried, too. So many
	// users who are away cost no more calls than a few.
	probeEvery = time.Second
	probes     = 8
	// passedOver bounds for how many keys that is remembered.
	passedOver = 100_000
)

var (
	// errPassedOver says that a key was not tried, because it could not be reached before.
	errPassedOver = errors.New("passed over: could not be reached before")
	// errNoTime says that a key was not tried, because others took the time.
	errNoTime = fmt.Errorf("%w: not tried, because others took the time", message.ErrUnavailable)
	// errHangs says that a call did not keep to its deadline. A second one would take as long.
	errHangs = errors.New("the store does not keep to deadlines")
)

// reach calls a store of which a part may be away. It tries what belongs to several keys (users, messages) together, and key by key if that fails or
// takes long. A key that cannot be reached is never taken for one without a record. It is safe for concurrent use.
type reach struct {
	opts     Options
	stage    string
	patience atomic.Int64              // a time.Duration
	last     atomic.Int64              // when a call was answered last, in nanoseconds since 1970
	trouble  atomic.Int64              // when a key was missed last, in nanoseconds since 1970
	missed   *lru.Cache[string, error] // why keys could not be reached
	count    prometheus.Counter
	panics   *panics.Recorder

	mu     sync.Mutex
	since  time.Time // when the present probes began
	probed int       // how many of them there were
}

func newReach(opts Options, stage string, recorder *panics.Recorder) *reach {
	missed, err := lru.New[string, error](passedOver)
	if err != nil {
		panic(err) // the size is a positive constant
	}
	r := &reach{opts: opts, stage: stage, missed: missed, panics: recorder, count: promauto.With(opts.Metrics).NewCounter(prometheus.CounterOpts{
		Name: "fanmail_unreachable_total", Help: "Times that fan-out has passed over a user or a message that could not be reached. It comes back to them.",
		ConstLabels: prometheus.Labels{"stage": stage},
	})}
	r.patience.Store(int64(max(leastPatience, opts.Patience)))
	return r
}

// passing reports whether an error of a call may pass, so that the call can be made for each key alone.
func passing(ctx context.Context, err error) bool { return Classify(err) == Retry && ctx.Err() == nil }

// together makes a call for several keys. It makes none if one of them would probably fail it.
func (r *reach) together(ctx context.Context, call func(context.Context) error) error {
	if r.opts.Now().Sub(time.Unix(0, r.trouble.Load())).Abs() < troubleLasts {
		return errPassedOver
	}
	patience := time.Duration(r.patience.Load())
	began := time.Now() //nolint:forbidigo // measures a duration; stored times come from Options.Now
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := unanswered(ctx, call(limited))
	switch took := time.Since(began); {
	case err == nil:
		r.answered(took)
	case took > 2*patience:
		return fmt.Errorf("%w: %w", errHangs, err)
	}
	return err
}

// unanswered says of a call whose patience has ended, and not that of its caller, that the store does not answer.
func unanswered(ctx context.Context, err error) error {
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return fmt.Errorf("%w: %w", message.ErrUnavailable, err)
	}
	return err
}

// answered notes how long a call took that was answered.
func (r *reach) answered(took time.Duration) {
	r.last.Store(time.Now().UnixNano()) //nolint:forbidigo // as in together
	r.patience.Store(int64(max(leastPatience, r.opts.Patience, min(mostPatience, patienceFactor*took))))
}

// alone makes a call for each of n keys, several at the same time, and returns the errors of those that could not be reached, by their index. All
// calls together take at most the patience.
func (r *reach) alone(ctx context.Context, n int, key func(int) string, call func(context.Context, int) error) map[int]error {
	patience := time.Duration(r.patience.Load())
	all, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	errs, tried := make([]error, n), false
	var group errgroup.Group
	group.SetLimit(aloneAtOnce)
	for i := range n {
		cause, known := r.missed.Peek(key(i))
		if known && !r.probe() {
			errs[i] = fmt.Errorf("%w: %w", errPassedOver, cause)
			continue
		}
		tried = true
		group.Go(func() error {
			if all.Err() != nil {
				errs[i] = errNoTime
				return nil
			}
			one, cancel := context.WithTimeout(all, patience/alonePart)
			defer cancel()
			began := time.Now() //nolint:forbidigo // as in together
			if errs[i] = unanswered(ctx, panics.Do(func() error { return call(one, i) })); errs[i] != nil {
				return nil
			}
			if r.answered(time.Since(began)); known {
				r.missed.Purge()
				r.trouble.Store(0)
			}
			return nil
		})
	}
	_ = group.Wait()
	missed := make(map[int]error)
	for i, err := range errs {
		if err != nil {
			missed[i] = err
		}
	}
	if tried && time.Since(time.Unix(0, r.last.Load())) > patience { // nobody answers this fast
		r.patience.CompareAndSwap(int64(patience), int64(min(mostPatience, 2*patience)))
	}
	for i, err := range missed {
		if !passing(ctx, err) {
			continue
		}
		if r.count.Inc(); !errors.Is(err, errPassedOver) && !errors.Is(err, errNoTime) {
			r.note(key(i), err, len(missed) < n)
		}
	}
	return missed
}

// split makes a call for n keys together. If that fails, it makes the call for each key alone, and returns the errors of those for which it fails again.
// The call gets the range of keys, from first to end - 1.
func (r *reach) split(ctx context.Context, n int, key func(int) string, call func(ctx context.Context, first, end int) error) map[int]error {
	if n == 0 {
		return nil
	}
	err := panics.Do(func() error { return r.together(ctx, func(ctx context.Context) error { return call(ctx, 0, n) }) })
	if err == nil {
		return nil
	}
	r.panics.Record(err, func(line *zerolog.Event) *zerolog.Event { return line })
	if ctx.Err() != nil || errors.Is(err, errHangs) {
		failed := make(map[int]error, n)
		for i := range n {
			failed[i] = err
		}
		return failed
	}
	return r.alone(ctx, n, key, func(ctx context.Context, i int) error { return call(ctx, i, i+1) })
}

// one is split for one key.
func (r *reach) one(ctx context.Context, key string, call func(context.Context) error) error {
	return r.split(ctx, 1, func(int) string { return key }, func(ctx context.Context, _, _ int) error { return call(ctx) })[0]
}

// note remembers that a key could not be reached. If another one could, a part of the store is away; otherwise, it may be slow.
func (r *reach) note(key string, err error, partly bool) {
	now := r.opts.Now()
	r.missed.Add(key, err)
	if !partly {
		return
	}
	if before := r.trouble.Swap(now.UnixNano()); now.Sub(time.Unix(0, before)).Abs() >= troubleLasts {
		r.opts.Logger.Warn().Err(err).Str("work", r.stage).Msg("some users or messages cannot be reached: fan-out passes over them, and comes back")
	}
}

// probe reports whether a key that was missed may be tried now.
func (r *reach) probe() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := r.opts.Now(); now.Sub(r.since).Abs() >= probeEvery {
		r.since, r.probed = now, 0
	}
	r.probed++
	return r.probed <= probes
}

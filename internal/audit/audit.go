package audit

import (
	"context"
	"io"
	"slices"
	"time"

	"github.com/fanmail/fanmail/internal/partition"
	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/flag"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// Stores are the stores that an audit reads. Only a repair writes, and only to inboxes.
type Stores struct {
	Messages message.Store
	Progress progress.Store
	Users    userstate.Store
	Edges    follow.Store
	Flags    flag.Store
	Buckets  bucket.Store
	Appender *bucket.Appender
}

// Options configures a Service.
type Options struct {
	// Partitions is the store's partition count.
	Partitions int
	// Rules returns the rules that hold now.
	Rules func() userstate.Rules
	// CatchUp is how long a follow may take to append the messages that fan-out passed before the edge was visible; 0 means two seconds.
	// The audit waits that long for each user whose missing message may be one of those.
	CatchUp time.Duration
	// Random is the source of the seed of a sample (crypto/rand.Reader).
	Random io.Reader
	Now    func() time.Time
	// Waits says what a fan-out waits for.
	Waits progress.Waits
	// Recount sets the numbers of a user's gaps right: see rehydrate.Service.Recount.
	Recount func(ctx context.Context, user message.UserID, buckets bucket.Store) error
}

// Service explains and audits. It is safe for concurrent use.
type Service struct {
	stores Stores
	opts   Options
	// turns bounds the number of users that all audits together look at, so that audits do not slow down deliveries.
	turns chan struct{}
}

// concurrency is how many users are audited at a time.
const concurrency = 2

// defaultCatchUp is many times as long as a batch of follows takes to catch up.
const defaultCatchUp = 2 * time.Second

// New returns a Service.
func New(stores Stores, opts Options) *Service {
	if opts.CatchUp == 0 {
		opts.CatchUp = defaultCatchUp
	}
	return &Service{stores: stores, opts: opts, turns: make(chan struct{}, concurrency)}
}

// operation is the Service during one operation, with the rules that held when it began.
type operation struct {
	*Service
	rules userstate.Rules
}

func (s *Service) begin() operation { return operation{Service: s, rules: s.opts.Rules()} }

func (s *Service) partition(user message.UserID) int { return partition.Of(user, s.opts.Partitions) }

func (s *Service) state(ctx context.Context, user message.UserID) (userstate.State, error) {
	return userstate.Get(ctx, s.stores.Users, user)
}

// edges returns a user's edges to the author of a message, and to its topics and their ancestors, ascending by followee. Those that never held
// have no spans.
func (s *Service) edges(ctx context.Context, user message.UserID, m message.Message) ([]follow.Edge, error) {
	sources := append(m.Sources(), m.From.Source())
	slices.Sort(sources)
	var pairs []follow.Pair
	for _, source := range slices.Compact(sources) {
		if source != user.Source() {
			pairs = append(pairs, follow.Pair{Follower: user, Followee: source})
		}
	}
	if len(pairs) == 0 {
		return nil, nil
	}
	return s.stores.Edges.Get(ctx, pairs)
}

// bucketsPage is how many buckets are read at a time. A bucket of the largest entries takes about 8 MiB.
const bucketsPage = 8

// lowest reports whether there is nothing below a bucket. A stub may stand for all buckets that were removed.
func lowest(b *bucket.Bucket) bool { return b.Sequence == 0 || b.Stub && b.Floor.IsZero() }

// eachBucket calls do with the buckets of an inbox, from the head down, until do returns false. It reports whether there is a bucket
// at or above the one that the hint names. Every hint above 0 has such a bucket.
func (s *Service) eachBucket(ctx context.Context, user message.UserID, hint uint32, do func(*bucket.Bucket) bool) (hinted bool, err error) {
	heads, err := s.stores.Buckets.Heads(ctx, []bucket.Head{{Owner: user, Hint: bucket.Hint{Sequence: hint}}})
	if err != nil {
		return false, err
	}
	hinted = heads[0].Slots > 0
	if !hinted && hint > 0 {
		_, err = s.eachBucket(ctx, user, 0, do)
		return false, err
	}
	for high, more := heads[0].Sequence, hinted; more; {
		low := high - min(high, bucketsPage-1)
		buckets, err := bucket.ReadSection(ctx, s.stores.Buckets, bucket.Section{Owner: user, Low: low, High: high}, bucket.AllFields)
		if err != nil {
			return hinted, err
		}
		for i := range buckets {
			if !do(&buckets[i]) || lowest(&buckets[i]) {
				return hinted, nil
			}
		}
		more = low > 0
		high = low - min(low, 1)
	}
	return hinted, nil
}

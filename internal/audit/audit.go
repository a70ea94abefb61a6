package audit

import (
	"context"
	"io"
	"time"

	"github.com/fanmail/fanmail/internal/partition"
	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// Stores are the stores that are looked at. Only a repair writes, to inboxes.
type Stores struct {
	Messages message.Store
	Progress progress.Store
	Users    userstate.Store
	Edges    follow.Store
	Buckets  bucket.Store
	Appender *bucket.Appender
}

// Options configures a Service.
type Options struct {
	// Partitions is the store's partition count.
	Partitions int
	// Rules returns the rules that hold now.
	Rules func() userstate.Rules
	// CatchUp is how long whoever begins to follow somebody may take to append what fan-out had passed by then; 0 means
	// two seconds. It costs the audit that long for each user who lacks something which may be due to that.
	CatchUp time.Duration
	// Random is where the seed of a sample comes from (crypto/rand.Reader).
	Random io.Reader
	Now    func() time.Time
}

// Service explains and audits. It is safe for concurrent use.
type Service struct {
	stores Stores
	opts   Options
	// turns has room for as many users as are audited at a time, by all audits together: they are to be slower, and not
	// the deliveries beside them.
	turns chan struct{}
}

// concurrency is how many users are audited at a time.
const concurrency = 2

// defaultCatchUp is many times what it takes a follow, or a batch of them, to catch up.
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

// edge returns the user's edge to an author, without spans where there has never been one.
func (s *Service) edge(ctx context.Context, user, author message.UserID) (follow.Edge, error) {
	if user == author {
		return follow.Edge{}, nil
	}
	edges, err := s.stores.Edges.Get(ctx, []follow.Pair{{Follower: user, Followee: author}})
	if err != nil {
		return follow.Edge{}, err
	}
	return edges[0], nil
}

// bucketsPage is how many buckets are read at a time. A bucket of the largest entries takes some 6 MiB.
const bucketsPage = 8

// eachBucket calls do with the buckets of an inbox, from the head down, until it returns false. It tells whether there is
// a bucket at or above the one that the hint names, as there must be for any hint above 0.
func (s *Service) eachBucket(ctx context.Context, user message.UserID, hint uint32, do func(*bucket.Bucket) bool) (hinted bool, err error) {
	heads, err := s.stores.Buckets.Heads(ctx, []bucket.Ref{{Owner: user, Sequence: hint}})
	if err != nil {
		return false, err
	}
	hinted = len(heads[0].IDs) > 0
	if !hinted && hint > 0 {
		_, err = s.eachBucket(ctx, user, 0, do)
		return false, err
	}
	for high, more := heads[0].Sequence, hinted; more; {
		low := high - min(high, bucketsPage-1)
		buckets, err := s.stores.Buckets.Range(ctx, user, low, high, bucketsPage)
		if err != nil {
			return hinted, err
		}
		for i := range buckets {
			if !do(&buckets[i]) {
				return hinted, nil
			}
		}
		more = low > 0
		high = low - min(low, 1)
	}
	return hinted, nil
}

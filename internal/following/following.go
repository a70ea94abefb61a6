// Package following changes and lists edges: which user follows which author, or is subscribed to which topic.
//
// A message is for each follower whose edge held when the message was sent. Fan-out can pass a follower after the edge's span began and
// before the edge became visible. So Follow opens a span, and then appends the messages that the author has sent since it began. If
// fan-out appends the same message, the inbox holds it once.
package following

import (
	"context"
	"fmt"
	"time"

	"github.com/fanmail/fanmail/internal/partition"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/topic"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// Options configures a Service.
type Options struct {
	// Partitions is the store's partition count.
	Partitions int
	// Rules returns the rules that hold now.
	Rules func() userstate.Rules
	// Max is how many edges a user may have, also ended ones; 0 for no limit.
	Max int
	Now func() time.Time
	// Clock returns what the store's clock shows, and whether all clocks agree.
	Clock func(context.Context) (now time.Time, agree bool, err error)
	// Seen, unless it is nil, records that a user has followed or subscribed at the given time, as a view.
	Seen func(ctx context.Context, user message.UserID, at time.Time) error
}

// Service changes and lists edges. It is safe for concurrent use.
type Service struct {
	edges    follow.Store
	messages message.Store
	users    userstate.Store
	appender *bucket.Appender
	opts     Options
}

// New returns a Service.
func New(edges follow.Store, messages message.Store, users userstate.Store, appender *bucket.Appender, opts Options) *Service {
	return &Service{edges: edges, messages: messages, users: users, appender: appender, opts: opts}
}

// Follow makes every pair's follower follow its followee from now on. If a pair is invalid (see follow.Pair.Validate), Follow changes
// nothing and returns an error. If edges are full, a user has too many of them, or users block each other, Follow follows the other pairs, and
// returns a follow.RefusedError. After any other error, some of the edges may exist; call Follow again. Follow is idempotent.
func (s *Service) Follow(ctx context.Context, pairs []follow.Pair) error {
	now, refused := s.opts.Now(), make(follow.RefusedError)
	_, err := s.begin(ctx, pairs, now, refused, func(pairs []follow.Pair) ([]follow.Edge, error) {
		return s.unlessBlocked(ctx, pairs, refused, now)
	})
	return err
}

// Seen records that a user has followed or subscribed now, if that counts as a view. Call it after Follow or Subscribe: then the rebuild of an
// inbox finds the new edge. It is idempotent.
func (s *Service) Seen(ctx context.Context, user message.UserID) error {
	if s.opts.Seen == nil {
		return nil
	}
	if err := s.opts.Seen(ctx, user, s.opts.Now()); err != nil {
		return fmt.Errorf("a follow as a view: %w", err)
	}
	return nil
}

// Subscribe is Follow for topics. It does not look whether a topic exists: see package topics. It returns the edges that hold then, each once, also
// together with a follow.RefusedError.
func (s *Service) Subscribe(ctx context.Context, subscriptions []follow.Subscription) ([]follow.Edge, error) {
	now := s.opts.Now()
	pairs, numbers := make([]follow.Pair, len(subscriptions)), make(map[follow.Pair]topic.Number, len(subscriptions))
	for i, sub := range subscriptions {
		pairs[i], numbers[sub.Pair] = sub.Pair, sub.Number
	}
	return s.begin(ctx, pairs, now, make(follow.RefusedError), func(pairs []follow.Pair) ([]follow.Edge, error) {
		numbered := make([]follow.Subscription, len(pairs))
		for i, p := range pairs {
			numbered[i] = follow.Subscription{Pair: p, Number: numbers[p]}
		}
		return s.edges.Subscribe(ctx, numbered, now)
	})
}

// begin opens spans with open, makes room for those of full edges, and catches up. It returns the edges that hold then. The refused pairs are its
// error, with those that open refuses.
func (s *Service) begin(
	ctx context.Context, pairs []follow.Pair, now time.Time, refused follow.RefusedError, open func([]follow.Pair) ([]follow.Edge, error),
) ([]follow.Edge, error) {
	unique := make([]follow.Pair, 0, len(pairs))
	seen := make(map[follow.Pair]bool, len(pairs))
	for _, p := range pairs {
		if err := p.Validate(); err != nil {
			return nil, err
		}
		if !seen[p] {
			seen[p] = true
			unique = append(unique, p)
		}
	}
	var edges []follow.Edge
	allowed, err := s.withinMax(ctx, unique, refused)
	if err == nil {
		edges, err = open(allowed)
	}
	if err == nil {
		edges, err = s.makeRoom(ctx, edges, refused, open)
	}
	if err != nil {
		return nil, fmt.Errorf("follow: %w", err)
	}
	err = (&catchUp{Service: s, rules: s.opts.Rules(), now: now}).run(ctx, edges)
	if err == nil && len(refused) > 0 {
		err = refused
	}
	return edges, err
}

// Unfollow ends the edge of a pair. It returns an error if the pair is invalid. Unfollow is idempotent.
func (s *Service) Unfollow(ctx context.Context, pair follow.Pair) error {
	if err := pair.Validate(); err != nil {
		return err
	}
	return s.edges.Unfollow(ctx, pair, s.opts.Now())
}

// Followers returns at most limit current followers of an author, or subscribers of a topic, ordered by partition and by id within a partition. The second result is
// the value of after for the next call, or "" at the end.
func (s *Service) Followers(ctx context.Context, of message.Source, after message.UserID, limit int) (users []message.UserID, next message.UserID, err error) {
	first := 0
	if after != "" {
		first = partition.Of(after, s.opts.Partitions)
	}
	for p := first; p < s.opts.Partitions; p++ {
		list := func(after message.UserID, limit int) ([]follow.Edge, error) {
			return s.edges.Followers(ctx, of, p, after, limit)
		}
		from := message.UserID("")
		if p == first {
			from = after
		}
		more, err := collect(list, follower, from, limit+1-len(users))
		if err != nil {
			return nil, "", err
		}
		if users = append(users, more...); len(users) > limit {
			return users[:limit], users[limit-1], nil
		}
	}
	return users, "", nil
}

// Following returns at most limit authors that a user follows now, ordered by id. The second result is that of Followers.
func (s *Service) Following(ctx context.Context, user, after message.UserID, limit int) (users []message.UserID, next message.UserID, err error) {
	list := func(after message.UserID, limit int) ([]follow.Edge, error) {
		return s.edges.Following(ctx, user, max(after.Source(), message.FirstAuthor), limit)
	}
	return page(list, author, after, limit)
}

// page returns at most limit ends of edges that hold now, and the value of after for the next page.
func page(
	list func(after message.UserID, limit int) ([]follow.Edge, error), end func(follow.Edge) message.UserID, after message.UserID, limit int,
) (users []message.UserID, next message.UserID, err error) {
	users, err = collect(list, end, after, limit+1)
	if err != nil || len(users) <= limit {
		return users, "", err
	}
	return users[:limit], users[limit-1], nil
}

func follower(e follow.Edge) message.UserID { return e.Follower }

func author(e follow.Edge) message.UserID { return e.Followee.Author() }

// collect returns one end of up to limit edges that hold now. It skips edges that have ended.
func collect(
	list func(after message.UserID, limit int) ([]follow.Edge, error), end func(follow.Edge) message.UserID, after message.UserID, limit int,
) ([]message.UserID, error) {
	ends := []message.UserID{}
	for len(ends) < limit {
		asked := limit - len(ends)
		edges, err := list(after, asked)
		if err != nil {
			return nil, err
		}
		for _, e := range edges {
			if e.Open() {
				ends = append(ends, end(e))
			}
		}
		if len(edges) < asked {
			break
		}
		after = end(edges[len(edges)-1])
	}
	return ends, nil
}

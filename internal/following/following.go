// Package following changes and lists who follows whom.
//
// A message is for everybody whose edge to its author held when it was sent. But fan-out may pass a follower's
// place in the moment between the beginning of their edge's span and its becoming visible. So whoever opens a span
// then looks for messages by that author sent since, and appends them: what fan-out does too, is in the inbox once.
package following

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/partition"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// Options configures a Service.
type Options struct {
	// Partitions is the store's partition count.
	Partitions int
	Policy     userstate.Policy
	// Slack is how long after it was sent a message may become visible. An edge is taken to become visible within it, too.
	Slack time.Duration
	Now   func() time.Time
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

// Follow makes every pair's follower follow its followee from now on. It is idempotent: after an error some pairs may
// have been followed and some not, and it is right to call Follow again. A pair that is not valid is an error
// (see follow.Pair.Validate), and then nothing is changed.
func (s *Service) Follow(ctx context.Context, pairs []follow.Pair) error {
	unique := make([]follow.Pair, 0, len(pairs))
	seen := make(map[follow.Pair]bool, len(pairs))
	for _, p := range pairs {
		if err := p.Validate(); err != nil {
			return err
		}
		if !seen[p] {
			seen[p] = true
			unique = append(unique, p)
		}
	}
	now := s.opts.Now()
	edges, err := s.edges.Follow(ctx, unique, now)
	if err != nil {
		return fmt.Errorf("follow: %w", err)
	}
	return s.catchUp(ctx, edges, now)
}

// Unfollow makes the pair's follower no longer follow its followee. It is idempotent.
func (s *Service) Unfollow(ctx context.Context, pair follow.Pair) error {
	if err := pair.Validate(); err != nil {
		return err
	}
	return s.edges.Unfollow(ctx, pair, s.opts.Now())
}

// Followers returns who follows a user now, at most limit of them, and where to go on: "" if there are no more, otherwise
// what to pass as after next time. They are in the order of their partitions, and by id within each.
func (s *Service) Followers(ctx context.Context, user, after message.UserID, limit int) (users []message.UserID, next message.UserID, err error) {
	first := 0
	if after != "" {
		first = partition.Of(after, s.opts.Partitions)
	}
	for p := first; p < s.opts.Partitions; p++ {
		list := func(after message.UserID, limit int) ([]follow.Edge, error) {
			return s.edges.Followers(ctx, user, p, after, limit)
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

// Following returns whom a user follows now, by id, at most limit of them, and where to go on, as Followers does.
func (s *Service) Following(ctx context.Context, user, after message.UserID, limit int) (users []message.UserID, next message.UserID, err error) {
	list := func(after message.UserID, limit int) ([]follow.Edge, error) {
		return s.edges.Following(ctx, user, after, limit)
	}
	users, err = collect(list, followee, after, limit+1)
	if err != nil || len(users) <= limit {
		return users, "", err
	}
	return users[:limit], users[limit-1], nil
}

func follower(e follow.Edge) message.UserID { return e.Follower }

func followee(e follow.Edge) message.UserID { return e.Followee }

// collect returns one end of up to limit edges that hold now, passing over those that have ended.
func collect(
	list func(after message.UserID, limit int) ([]follow.Edge, error),
	end func(follow.Edge) message.UserID, after message.UserID, limit int,
) ([]message.UserID, error) {
	users := []message.UserID{}
	for len(users) < limit {
		asked := limit - len(users)
		edges, err := list(after, asked)
		if err != nil {
			return nil, err
		}
		for _, e := range edges {
			if e.Open() {
				users = append(users, end(e))
			}
		}
		if len(edges) < asked {
			break
		}
		after = end(edges[len(edges)-1])
	}
	return users, nil
}

// catchUp appends what the edges' followees have sent since their last spans began.
func (s *Service) catchUp(ctx context.Context, edges []follow.Edge, now time.Time) error {
	byAuthor := make(map[message.UserID][]follow.Edge)
	for _, e := range edges {
		byAuthor[e.Followee] = append(byAuthor[e.Followee], e)
	}
	for author, edges := range byAuthor {
		if err := s.catchUpAuthor(ctx, author, edges, now); err != nil {
			return fmt.Errorf("catch up with %s: %w", author, err)
		}
	}
	return nil
}

func (s *Service) catchUpAuthor(ctx context.Context, author message.UserID, edges []follow.Edge, now time.Time) error {
	const page = 200
	since := lastSince(edges[0])
	for _, e := range edges {
		if t := lastSince(e); t.Before(since) {
			since = t
		}
	}
	for after := before(message.MinID(since)); ; {
		stored, err := s.messages.ByAuthor(ctx, author, after, page)
		if err != nil {
			return err
		}
		if err := s.appendTo(ctx, edges, stored, now); err != nil {
			return err
		}
		if len(stored) < page {
			return nil
		}
		after = stored[page-1].ID
	}
}

// appendTo appends to each edge's follower those messages that fan-out may have missed.
func (s *Service) appendTo(ctx context.Context, edges []follow.Edge, stored []message.Stored, now time.Time) error {
	if len(stored) == 0 {
		return nil
	}
	slices.SortFunc(edges, func(a, b follow.Edge) int {
		if d := s.partition(a.Follower) - s.partition(b.Follower); d != 0 {
			return d
		}
		if a.Follower < b.Follower {
			return -1
		}
		return 1
	})
	var appends []bucket.Append
	for first := 0; first < len(edges); {
		end := first + 1
		for end < len(edges) && s.partition(edges[end].Follower) == s.partition(edges[first].Follower) {
			end++
		}
		group := edges[first:end]
		users := make([]message.UserID, len(group))
		for i, e := range group {
			users[i] = e.Follower
		}
		states, err := s.users.Lookup(ctx, s.partition(users[0]), users)
		if err != nil {
			return err
		}
		for i, e := range group {
			if entries := s.missed(e, states[i], stored, now); len(entries) > 0 {
				appends = append(appends, bucket.Append{Owner: e.Follower, Hint: states[i].Head, Entries: entries})
			}
		}
		first = end
	}
	results, err := s.appender.Append(ctx, appends)
	if err != nil {
		return err
	}
	for i, r := range results {
		if r.Err != nil {
			return fmt.Errorf("inbox of %s: %w", appends[i].Owner, r.Err)
		}
	}
	return nil
}

// missed returns what of the messages fan-out may have missed on this edge. If its span began just now, that is
// everything since. If it had begun before, this call repeats one that may not have come to its end: the edge has been
// visible from some moment within the slack after it began, and fan-out has seen it from then on.
func (s *Service) missed(e follow.Edge, state userstate.State, stored []message.Stored, now time.Time) []bucket.Entry {
	since := lastSince(e)
	fresh := !since.Before(now.UTC().Truncate(time.Millisecond))
	var entries []bucket.Entry
	for _, m := range stored {
		sent := m.Sent()
		switch {
		case sent.Before(since), !fresh && sent.After(since.Add(s.opts.Slack)):
		case m.Void(s.opts.Slack), !follow.For(m.Message, e.Follower, e), !s.opts.Policy.Deliver(state, sent):
		default:
			entries = append(entries, bucket.EntryOf(m.Message))
		}
	}
	return entries
}

func (s *Service) partition(user message.UserID) int { return partition.Of(user, s.opts.Partitions) }

func lastSince(e follow.Edge) time.Time { return e.Spans[len(e.Spans)-1].Since }

// before returns the greatest id below a bound that is no message's id, so that a range that excludes it includes the bound.
func before(bound message.ID) message.ID {
	for i := len(bound) - 1; i >= 0; i-- {
		bound[i]--
		if bound[i] != 0xff {
			break
		}
	}
	return bound
}

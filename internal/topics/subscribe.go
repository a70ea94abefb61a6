package topics

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/topic"
)

// Subscription is a user and a topic.
type Subscription struct {
	User  message.UserID
	Topic message.Topic
}

func (s Subscription) pair() follow.Pair {
	return follow.Pair{Follower: s.User, Followee: s.Topic.Source()}
}

// Subscribe subscribes users to topics from now on. It returns one error or nil for each: an *message.InvalidError for the field topic if the
// topic does not exist, a reason of follow.RefusedError, or ErrContended. The second result is a failure of the whole call, after which some subscriptions may
// exist. Subscribe is idempotent.
func (s *Service) Subscribe(ctx context.Context, all []Subscription) ([]error, error) {
	errs := make([]error, len(all))
	left := make([]int, len(all))
	for i := range left {
		left[i] = i
	}
	for range attempts {
		asked, err := s.numbered(ctx, all, left, errs)
		if err != nil {
			return nil, err
		}
		edges, err := s.following.Subscribe(ctx, asked)
		refused, ok := errors.AsType[follow.RefusedError](err)
		if err != nil && !ok {
			return nil, err
		}
		kept, err := s.kept(ctx, edges)
		if err != nil {
			return nil, err
		}
		left = slices.DeleteFunc(left, func(i int) bool {
			p := all[i].pair()
			errs[i] = cmp.Or(errs[i], refused[p])
			return errs[i] != nil || kept[p]
		})
		if len(left) == 0 {
			return errs, nil
		}
	}
	for _, i := range left {
		errs[i] = contended(all[i].Topic)
	}
	return errs, nil
}

// numbered returns some of the subscriptions with the numbers of their topics. It sets the errors of those whose topics do not exist.
func (s *Service) numbered(ctx context.Context, all []Subscription, places []int, errs []error) ([]follow.Subscription, error) {
	topics := make([]message.Topic, len(places))
	for k, i := range places {
		topics[k] = all[i].Topic
	}
	records, err := s.records(ctx, topics)
	if err != nil {
		return nil, err
	}
	var asked []follow.Subscription
	for _, i := range places {
		if r := records[all[i].Topic]; r.InForce {
			asked = append(asked, follow.Subscription{Pair: all[i].pair(), Number: r.Number})
		} else {
			errs[i] = &message.InvalidError{Field: "topic", Reason: fmt.Sprintf("is %q, and there is no such topic", string(all[i].Topic))}
		}
	}
	return asked, nil
}

// records is knownAll with each topic once.
func (s *Service) records(ctx context.Context, topics []message.Topic) (map[message.Topic]topic.Record, error) {
	slices.Sort(topics)
	records, err := s.knownAll(ctx, slices.Compact(topics))
	found := make(map[message.Topic]topic.Record, len(records))
	for _, r := range records {
		found[r.Topic] = r
	}
	return found, err
}

// kept looks at the topics of edges that hold, after they were written. It returns the pairs of those that hold because their topics exist, and
// ends the others. A topic with the number of an edge exists, and no deletion that is under way removes it.
func (s *Service) kept(ctx context.Context, edges []follow.Edge) (map[follow.Pair]bool, error) {
	topics := make([]message.Topic, len(edges))
	for i, e := range edges {
		topics[i], _ = e.Followee.Topic()
	}
	records, err := s.records(ctx, slices.Clone(topics))
	if err != nil {
		return nil, err
	}
	kept := make(map[follow.Pair]bool, len(edges))
	for i, e := range edges {
		r := records[topics[i]]
		if r.Number == e.Number && r.Mark != 0 {
			if r, err = s.unmarked(ctx, topics[i], e.Number); err != nil {
				return nil, err
			}
			records[topics[i]] = r
		}
		if r.Number == e.Number {
			kept[follow.Pair{Follower: e.Follower, Followee: e.Followee}] = true
		} else if err := s.end(ctx, e); err != nil {
			return nil, err
		}
	}
	return kept, nil
}

// end ends a subscription unless it was ended, or begun again, since its edge was read.
func (s *Service) end(ctx context.Context, e follow.Edge) error {
	sub := follow.Subscription{Pair: follow.Pair{Follower: e.Follower, Followee: e.Followee}, Number: e.Number}
	return s.edges.End(ctx, sub, s.opts.Now())
}

// Unsubscribe ends a subscription, if there is one. It is idempotent.
func (s *Service) Unsubscribe(ctx context.Context, sub Subscription) error {
	return s.following.Unfollow(ctx, sub.pair())
}

// Topics returns at most limit topics above after to which a user is subscribed, ascending. The second result is the value of after for the
// next call, or "" at the end. A page may be shorter than limit before the end.
func (s *Service) Topics(ctx context.Context, user message.UserID, after message.Topic, limit int) (topics []message.Topic, next message.Topic, err error) {
	edges, more, err := s.subscriptions(ctx, user, after, limit)
	if err != nil {
		return nil, "", err
	}
	all := make([]message.Topic, len(edges))
	for i, e := range edges {
		all[i], _ = e.Followee.Topic()
	}
	records, err := s.records(ctx, slices.Clone(all))
	if err != nil {
		return nil, "", err
	}
	topics = []message.Topic{}
	for i := range edges {
		if records[all[i]].InForce { // otherwise a call that has died left the edge
			topics = append(topics, all[i])
		}
	}
	if more {
		next = all[len(all)-1]
	}
	return topics, next, nil
}

// subscriptions returns at most limit edges of a user to topics above after that hold now, and whether there are more.
func (s *Service) subscriptions(ctx context.Context, user message.UserID, after message.Topic, limit int) (open []follow.Edge, more bool, err error) {
	for from := after.Source(); ; {
		asked := limit + 1 - len(open)
		edges, err := s.edges.Following(ctx, user, from, asked)
		if err != nil {
			return nil, false, err
		}
		for _, e := range edges {
			if !e.Followee.IsTopic() {
				return open, false, nil
			}
			if e.Open() {
				open = append(open, e)
			}
		}
		switch {
		case len(open) > limit:
			return open[:limit], true, nil
		case len(edges) < asked:
			return open, false, nil
		}
		from = edges[len(edges)-1].Followee
	}
}

// Subscribers returns at most limit users who are subscribed to a topic, in the order of following.Service.Followers. The second result is the
// value of after for the next call, or "" at the end. It returns ErrNotFound if there is no such topic.
func (s *Service) Subscribers(ctx context.Context, t message.Topic, after message.UserID, limit int) (users []message.UserID, next message.UserID, err error) {
	if err := s.Get(ctx, t); err != nil {
		return nil, "", err
	}
	return s.following.Followers(ctx, t.Source(), after, limit)
}

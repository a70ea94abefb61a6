package storemetrics

import (
	"context"
	"time"

	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
)

// Edges returns a store that measures each call and passes it to the given store.
func (m *Metrics) Edges(store follow.Store) follow.Store {
	return &edges{
		Store:     store,
		follow:    m.operation("edges.follow"),
		unfollow:  m.operation("edges.unfollow"),
		subscribe: m.operation("edges.subscribe"),
		end:       m.operation("edges.end"),
		drop:      m.operation("edges.drop_spans"),
		get:       m.operation("edges.get"),
		followers: m.operation("edges.followers"),
		following: m.operation("edges.following"),
		ended:     m.operation("edges.ended"),
		remove:    m.operation("edges.remove"),
	}
}

type edges struct {
	follow.Store

	follow, unfollow, subscribe, end, drop, get, followers, following, ended, remove operation
}

func (s *edges) Follow(ctx context.Context, pairs []follow.Pair, at time.Time) (all []follow.Edge, err error) {
	defer s.follow.done(ctx, s.follow.now(), &err)
	return s.Store.Follow(ctx, pairs, at)
}

func (s *edges) Unfollow(ctx context.Context, pair follow.Pair, at time.Time) (err error) {
	defer s.unfollow.done(ctx, s.unfollow.now(), &err)
	return s.Store.Unfollow(ctx, pair, at)
}

func (s *edges) Subscribe(ctx context.Context, subscriptions []follow.Subscription, at time.Time) (all []follow.Edge, err error) {
	defer s.subscribe.done(ctx, s.subscribe.now(), &err)
	return s.Store.Subscribe(ctx, subscriptions, at)
}

func (s *edges) End(ctx context.Context, subscription follow.Subscription, at time.Time) (err error) {
	defer s.end.done(ctx, s.end.now(), &err)
	return s.Store.End(ctx, subscription, at)
}

func (s *edges) DropSpans(ctx context.Context, pair follow.Pair, spans []follow.Span) (err error) {
	defer s.drop.done(ctx, s.drop.now(), &err)
	return s.Store.DropSpans(ctx, pair, spans)
}

func (s *edges) Get(ctx context.Context, pairs []follow.Pair) (all []follow.Edge, err error) {
	defer s.get.done(ctx, s.get.now(), &err)
	return s.Store.Get(ctx, pairs)
}

func (s *edges) Followers(
	ctx context.Context, followee message.Source, partition int, after message.UserID, limit int,
) (all []follow.Edge, err error) {
	defer s.followers.done(ctx, s.followers.now(), &err)
	return s.Store.Followers(ctx, followee, partition, after, limit)
}

func (s *edges) Following(ctx context.Context, follower message.UserID, after message.Source, limit int) (all []follow.Edge, err error) {
	defer s.following.done(ctx, s.following.now(), &err)
	return s.Store.Following(ctx, follower, after, limit)
}

func (s *edges) Ended(ctx context.Context, place string, by time.Time, limit int) (ended []follow.Edge, next string, err error) {
	defer s.ended.done(ctx, s.ended.now(), &err)
	return s.Store.Ended(ctx, place, by, limit)
}

func (s *edges) Remove(ctx context.Context, ended []follow.Edge) (err error) {
	defer s.remove.done(ctx, s.remove.now(), &err)
	return s.Store.Remove(ctx, ended)
}

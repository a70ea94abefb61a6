package rig

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// Shards lets a part of the database be away: each call that touches it fails as a whole. Users, authors, sources and plans are parts.
type Shards struct {
	away atomic.Pointer[func(key string) bool]
	// Hang is what a call does that touches what is away, before it fails; nil is nothing.
	Hang func(ctx context.Context)
}

// Away lets everything be away whose key meets a condition: a user, or the text of a message's id. Nil ends that.
func (s *Shards) Away(is func(key string) bool) {
	if is == nil {
		s.away.Store(nil)
		return
	}
	s.away.Store(&is)
}

// touch fails a call that touches what is away.
func touch[K ~string](ctx context.Context, s *Shards, keys ...K) error {
	away := s.away.Load()
	if away == nil || !slices.ContainsFunc(keys, func(key K) bool { return (*away)(string(key)) }) {
		return nil
	}
	if s.Hang != nil {
		s.Hang(ctx)
	}
	return ErrInjected
}

// keysOf returns the keys of items.
func keysOf[T any, K ~string](items []T, key func(T) K) []K {
	keys := make([]K, len(items))
	for i, item := range items {
		keys[i] = key(item)
	}
	return keys
}

func authorOf(r message.Ref) message.UserID { return r.From }

type shardedMessages struct {
	message.Store
	shards *Shards
}

func (s shardedMessages) GetMany(ctx context.Context, refs []message.Ref) ([]message.Found, error) {
	if err := touch(ctx, s.shards, keysOf(refs, authorOf)...); err != nil {
		return nil, err
	}
	return s.Store.GetMany(ctx, refs)
}

func (s shardedMessages) Endings(ctx context.Context, refs []message.Ref) ([]message.Ending, error) {
	if err := touch(ctx, s.shards, keysOf(refs, authorOf)...); err != nil {
		return nil, err
	}
	return s.Store.Endings(ctx, refs)
}

func (s shardedMessages) Conclude(ctx context.Context, endings []message.Ending) error {
	if err := touch(ctx, s.shards, keysOf(endings, func(e message.Ending) message.UserID { return e.Ref.From })...); err != nil {
		return err
	}
	return s.Store.Conclude(ctx, endings)
}

type shardedProgress struct {
	progress.Store
	shards *Shards
}

func (s shardedProgress) Plan(ctx context.Context, id message.ID, lane string, partitions []int, now time.Time) (progress.Fanout, error) {
	if err := touch(ctx, s.shards, id.String()); err != nil {
		return progress.Fanout{}, err
	}
	return s.Store.Plan(ctx, id, lane, partitions, now)
}

func (s shardedProgress) GetMany(ctx context.Context, ids []message.ID) ([]progress.Fanout, []bool, error) {
	if err := touch(ctx, s.shards, keysOf(ids, message.ID.String)...); err != nil {
		return nil, nil, err
	}
	return s.Store.GetMany(ctx, ids)
}

func (s shardedProgress) Scans(ctx context.Context, partition int, ids []message.ID) ([]progress.Scan, []bool, error) {
	if err := touch(ctx, s.shards, keysOf(ids, message.ID.String)...); err != nil {
		return nil, nil, err
	}
	return s.Store.Scans(ctx, partition, ids)
}

func (s shardedProgress) Step(ctx context.Context, steps []progress.Move, now time.Time) ([]progress.Moved, error) {
	if err := touch(ctx, s.shards, keysOf(steps, func(m progress.Move) string { return m.ID.String() })...); err != nil {
		return nil, err
	}
	return s.Store.Step(ctx, steps, now)
}

type shardedUsers struct {
	userstate.Store
	shards *Shards
}

func (s shardedUsers) Lookup(ctx context.Context, users []message.UserID) ([]userstate.Looked, error) {
	if err := touch(ctx, s.shards, users...); err != nil {
		return nil, err
	}
	return s.Store.Lookup(ctx, users)
}

func (s shardedUsers) View(ctx context.Context, views []userstate.View) ([]userstate.Viewed, error) {
	if err := touch(ctx, s.shards, keysOf(views, func(v userstate.View) message.UserID { return v.User })...); err != nil {
		return nil, err
	}
	return s.Store.View(ctx, views)
}

type shardedEdges struct {
	follow.Store
	shards *Shards
}

func (s shardedEdges) Followers(
	ctx context.Context, followee message.Source, partition int, after message.UserID, limit int,
) ([]follow.Edge, error) {
	if err := touch(ctx, s.shards, followee); err != nil {
		return nil, err
	}
	return s.Store.Followers(ctx, followee, partition, after, limit)
}

func (s shardedEdges) Audience(ctx context.Context, followees []message.Source, limit int) ([]follow.Edge, error) {
	if err := touch(ctx, s.shards, followees...); err != nil {
		return nil, err
	}
	return s.Store.Audience(ctx, followees, limit)
}

type shardedInbox struct {
	bucket.Store
	shards *Shards
}

func (s shardedInbox) Push(ctx context.Context, pushes []bucket.Push) ([]bucket.Outcome, error) {
	if err := touch(ctx, s.shards, keysOf(pushes, func(p bucket.Push) message.UserID { return p.Owner })...); err != nil {
		return nil, err
	}
	return s.Store.Push(ctx, pushes)
}

func (s shardedInbox) Heads(ctx context.Context, hints []bucket.Head) ([]bucket.Bucket, error) {
	if err := touch(ctx, s.shards, keysOf(hints, func(h bucket.Head) message.UserID { return h.Owner })...); err != nil {
		return nil, err
	}
	return s.Store.Heads(ctx, hints)
}

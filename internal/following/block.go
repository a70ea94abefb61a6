package following

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
)

// Block makes the pair's follower block its followee. Neither can follow the other then, and messages of the followee that name the follower leave
// them out. It returns an error if the pair is invalid, and a follow.RefusedError if the follower has too many edges. Block is idempotent.
//
// The block is written first, and then the edges end. So a follow at the same time finds the block when it has opened its span, or opened it before
// they end. test/proof/block.go has the proof. If the process of such a follow dies in between, its edge stays until either call is repeated.
func (s *Service) Block(ctx context.Context, pair follow.Pair) error {
	if err := pair.Validate(); err != nil {
		return err
	}
	block, now := []follow.Pair{pair.Block()}, s.opts.Now()
	refused := make(follow.RefusedError)
	if allowed, err := s.withinMax(ctx, block, refused); err != nil || len(allowed) == 0 {
		return cmp.Or[error](err, refused)
	}
	edges, err := s.edges.Follow(ctx, block, now)
	if err == nil && edges[0].Full() { // nothing needs the spans of a block
		if err = s.edges.DropSpans(ctx, block[0], edges[0].Spans); err == nil {
			_, err = s.edges.Follow(ctx, block, now)
		}
	}
	if err != nil {
		return fmt.Errorf("block: %w", err)
	}
	return s.end(ctx, []follow.Pair{pair, pair.Reverse()})
}

// Unblock ends what Block has begun. The ended edges stay ended. It returns an error if the pair is invalid. Unblock is idempotent.
func (s *Service) Unblock(ctx context.Context, pair follow.Pair) error {
	if err := pair.Validate(); err != nil {
		return err
	}
	return s.edges.Unfollow(ctx, pair.Block(), s.opts.Now())
}

// Blocks returns, for each of the pairs, whether its follower blocks its followee, an author. It reads all of them at once.
func (s *Service) Blocks(ctx context.Context, pairs []follow.Pair) (map[follow.Pair]bool, error) {
	blocks := make(map[follow.Pair]bool, len(pairs))
	var asked, blocking []follow.Pair
	for _, p := range pairs {
		if _, there := blocks[p]; !there {
			blocks[p] = false
			asked, blocking = append(asked, p), append(blocking, p.Block())
		}
	}
	edges, err := s.edges.Get(ctx, blocking)
	if err != nil {
		return nil, fmt.Errorf("read blocks: %w", err)
	}
	for i, e := range edges {
		blocks[asked[i]] = e.Open()
	}
	return blocks, nil
}

// Blocked returns at most limit users whom a user blocks, ordered by id. The second result is that of Followers.
func (s *Service) Blocked(ctx context.Context, user, after message.UserID, limit int) (users []message.UserID, next message.UserID, err error) {
	list := func(after message.UserID, limit int) ([]follow.Edge, error) {
		edges, err := s.edges.Following(ctx, user, after.Block(), limit)
		return slices.DeleteFunc(edges, func(e follow.Edge) bool { return !e.Followee.IsBlock() }), err
	}
	return page(list, func(e follow.Edge) message.UserID { return e.Followee.Blocked() }, after, limit)
}

// unlessBlocked is Follow of the store for the pairs that no block forbids. It returns their edges, and adds the others to refused. It ends the
// edges of those, which a call may have left that has died.
func (s *Service) unlessBlocked(
	ctx context.Context, pairs []follow.Pair, refused follow.RefusedError, now time.Time,
) (edges []follow.Edge, err error) {
	forbidden := make(map[follow.Pair]bool)
	if err := s.forbid(ctx, pairs, forbidden); err != nil {
		return nil, err
	}
	allowed := slices.DeleteFunc(slices.Clone(pairs), func(p follow.Pair) bool { return forbidden[p] })
	if edges, err = s.edges.Follow(ctx, allowed, now); err == nil {
		err = s.forbid(ctx, allowed, forbidden)
	}
	if err != nil || len(forbidden) == 0 {
		return edges, err
	}
	edges = slices.DeleteFunc(edges, func(e follow.Edge) bool { return forbidden[follow.Pair{Follower: e.Follower, Followee: e.Followee}] })
	for p := range forbidden {
		refused[p] = &follow.BlockedError{Pair: p}
	}
	return edges, s.end(ctx, slices.DeleteFunc(slices.Clone(pairs), func(p follow.Pair) bool { return !forbidden[p] }))
}

// forbid adds those of the pairs to forbidden between whose users there is a block.
func (s *Service) forbid(ctx context.Context, pairs []follow.Pair, forbidden map[follow.Pair]bool) error {
	both := slices.Clone(pairs)
	for _, p := range pairs {
		both = append(both, p.Reverse())
	}
	blocks, err := s.Blocks(ctx, both)
	for _, p := range pairs {
		if blocks[p] || blocks[p.Reverse()] {
			forbidden[p] = true
		}
	}
	return err
}

// end ends those of the edges that hold.
func (s *Service) end(ctx context.Context, pairs []follow.Pair) error {
	edges, err := s.edges.Get(ctx, pairs)
	for i := 0; i < len(edges) && err == nil; i++ {
		if edges[i].Open() {
			err = s.edges.Unfollow(ctx, pairs[i], s.opts.Now())
		}
	}
	return err
}

package following

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
)

// withinMax returns those of the pairs that are edges already, or for whose edges their followers have room, and refuses the others. Calls at the
// same time do not know of each other.
func (s *Service) withinMax(ctx context.Context, pairs []follow.Pair, refused follow.RefusedError) ([]follow.Pair, error) {
	if s.opts.Max == 0 {
		return pairs, nil
	}
	of := make(map[message.UserID][]follow.Pair)
	for _, p := range pairs {
		of[p.Follower] = append(of[p.Follower], p)
	}
	users := slices.Collect(maps.Keys(of))
	counts, err := s.edges.Count(ctx, users, s.opts.Max+1)
	for i := 0; err == nil && i < len(users); i++ {
		if room, asked := s.opts.Max-counts[i], of[users[i]]; room < len(asked) {
			err = s.withinRoom(ctx, asked, room, refused)
		}
	}
	return slices.DeleteFunc(slices.Clone(pairs), func(p follow.Pair) bool { return refused[p] != nil }), err
}

// withinRoom refuses those of a user's pairs that are not edges yet, from the one on for which there is no room. For these it first removes edges.
func (s *Service) withinRoom(ctx context.Context, pairs []follow.Pair, room int, refused follow.RefusedError) error {
	edges, err := s.edges.Get(ctx, pairs)
	added, removed := slices.DeleteFunc(edges, func(e follow.Edge) bool { return len(e.Spans) > 0 }), 0
	if err == nil && len(added) > max(room, 0) {
		removed, err = s.removeEnded(ctx, pairs[0].Follower)
	}
	if room >= 0 { // otherwise there may be more than were counted
		room += removed
	}
	for _, e := range added[min(max(room, 0), len(added)):] {
		pair := follow.Pair{Follower: e.Follower, Followee: e.Followee}
		refused[pair] = &follow.FullError{Pair: pair, Max: s.opts.Max}
	}
	return err
}

// removeEnded removes edges of a user that have ended and that no message needs, and returns how many. It looks at some only.
func (s *Service) removeEnded(ctx context.Context, user message.UserID) (int, error) {
	const looks = 100
	settled := s.settled(ctx)
	edges, err := s.edges.Following(ctx, user, "", s.opts.Max)
	if err != nil {
		return 0, err
	}
	ended := slices.DeleteFunc(edges, func(e follow.Edge) bool { return !e.EndedBy(settled) })
	rand.Shuffle(len(ended), func(i, j int) { ended[i], ended[j] = ended[j], ended[i] }) //nolint:gosec // the order is no secret
	var gone []follow.Edge
	for _, e := range ended[:min(len(ended), looks)] {
		spans, err := s.unneeded(ctx, e.Followee, e.Spans, settled)
		if err != nil {
			return 0, err
		}
		if len(spans) == len(e.Spans) {
			gone = append(gone, e)
		}
	}
	return len(gone), s.edges.Remove(ctx, gone)
}

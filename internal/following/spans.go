package following

import (
	"context"
	"time"

	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// makeRoom drops spans of the full edges that no message needs, and follows again. It returns the edges that are open then, and the
// pairs whose edges stay full.
func (s *Service) makeRoom(
	ctx context.Context, edges []follow.Edge, now time.Time, again func([]follow.Pair) ([]follow.Edge, error),
) (open []follow.Edge, full []follow.Pair, err error) {
	for _, e := range edges {
		if e.Full() {
			if e, err = s.followFull(ctx, e, now, again); err != nil {
				return nil, nil, err
			}
		}
		if e.Full() {
			full = append(full, follow.Pair{Follower: e.Follower, Followee: e.Followee})
		} else if e.Open() { // otherwise a block refuses it
			open = append(open, e)
		}
	}
	return open, full, nil
}

// followFull drops spans of a full edge, and follows again. It returns the edge as it is then.
func (s *Service) followFull(
	ctx context.Context, e follow.Edge, now time.Time, again func([]follow.Pair) ([]follow.Edge, error),
) (follow.Edge, error) {
	spans, err := s.unneeded(ctx, e, s.opts.Rules(), now)
	if err != nil || len(spans) == 0 {
		return e, err
	}
	pair := follow.Pair{Follower: e.Follower, Followee: e.Followee}
	if err := s.edges.DropSpans(ctx, pair, spans); err != nil {
		return e, err
	}
	edges, err := again([]follow.Pair{pair})
	if err != nil || len(edges) == 0 {
		return follow.Edge{}, err
	}
	return edges[0], nil
}

// unneeded returns the ended spans of an edge in which no message was sent, and in which no message can appear any more.
func (s *Service) unneeded(ctx context.Context, e follow.Edge, rules userstate.Rules, now time.Time) ([]follow.Span, error) {
	settled, err := s.settled(ctx, e.Followee, rules, now)
	if err != nil {
		return nil, err
	}
	var spans []follow.Span
	for _, span := range e.Spans[:len(e.Spans)-1] {
		if span.Since.Equal(span.Until) {
			spans = append(spans, span)
			continue
		}
		if span.Until.After(settled) {
			continue
		}
		in := message.Range{From: e.Followee, After: message.LastBefore(span.Since), Before: message.MinID(span.Until)}
		found, err := s.messages.ToFollowers(ctx, []message.Range{in}, message.OldestFirst, 1)
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			spans = append(spans, span)
		}
	}
	return spans, nil
}

// newestLooks is how many messages of a source settled reads, to pass void ones.
const newestLooks = 8

// settled returns a time before which no further message of a source can be sent, or zero.
//
// A message that is stored more than PublishSlack after the time in its id is void. The stamp of a visible message shows how far the
// store's clock has come, and later stamps are at most ClockTolerance lower. The clock of this process lowers the result, and never raises
// it. So neither a wrong clock of a process nor a stamp of a store's clock that was ahead drops a span.
func (s *Service) settled(ctx context.Context, source message.Source, rules userstate.Rules, now time.Time) (time.Time, error) {
	sent := message.Range{From: source, Before: message.MinID(now.Add(rules.ClockTolerance))}
	newest, err := s.messages.ToFollowers(ctx, []message.Range{sent}, message.NewestFirst, newestLooks)
	if err != nil {
		return time.Time{}, err
	}
	for _, m := range newest {
		if m.Void {
			continue
		}
		reached := m.StoredAt
		if now.Before(reached) {
			reached = now
		}
		return reached.Add(-rules.PublishSlack - rules.ClockTolerance), nil
	}
	return time.Time{}, nil
}

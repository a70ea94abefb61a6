package following

import (
	"context"
	"time"

	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
)

// makeRoom drops spans of the full edges that no message needs, and follows again. It returns the edges that are open then, and refuses the
// pairs whose edges stay full.
func (s *Service) makeRoom(
	ctx context.Context, edges []follow.Edge, refused follow.RefusedError, again func([]follow.Pair) ([]follow.Edge, error),
) (open []follow.Edge, err error) {
	for _, e := range edges {
		pair, now := follow.Pair{Follower: e.Follower, Followee: e.Followee}, []follow.Edge{e}
		if e.Full() {
			spans, err := s.unneeded(ctx, e.Followee, e.Spans[:len(e.Spans)-1], s.settled(ctx))
			if err == nil {
				err = s.edges.DropSpans(ctx, pair, spans)
			}
			if err == nil {
				now, err = again([]follow.Pair{pair})
			}
			if err != nil {
				return nil, err
			}
		}
		switch {
		case len(now) == 0 || !now[0].Full() && !now[0].Open(): // a block refuses it
		case now[0].Full():
			refused[pair] = &follow.FullError{Pair: pair}
		default:
			open = append(open, now[0])
		}
	}
	return open, nil
}

// unneeded returns those of the ended spans of an edge in which no message was sent, and in which no message can appear any more.
func (s *Service) unneeded(ctx context.Context, of message.Source, ended []follow.Span, settled time.Time) (spans []follow.Span, err error) {
	for _, span := range ended {
		if span.Since.Equal(span.Until) {
			spans = append(spans, span)
			continue
		}
		if span.Until.After(settled) {
			continue
		}
		in := message.Range{From: of, After: message.LastBefore(span.Since), Before: message.MinID(span.Until)}
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

// settled returns a time before which no further message can be sent, and no change of an edge can be under way that ended before it. It returns
// zero while the clocks disagree, or cannot be read.
//
// A message that is stored more than PublishSlack after the time in its id is void. Stamps are at most ClockTolerance below what the store's clock
// shows now. The clock of this process lowers the result, and never raises it. So no wrong clock drops a span.
func (s *Service) settled(ctx context.Context) time.Time {
	reached, agree, err := s.opts.Clock(ctx)
	if err != nil || !agree {
		return time.Time{}
	}
	if now := s.opts.Now(); now.Before(reached) {
		reached = now
	}
	rules := s.opts.Rules()
	return reached.Add(-max(rules.PublishSlack, rules.ClockTolerance) - rules.ClockTolerance)
}

package topics

import (
	"context"

	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/topic"
)

// Delete removes a topic. It returns an *InUseError while there are topics below it, or users are subscribed to it. Subscriptions that have ended
// stay. It is idempotent.
func (s *Service) Delete(ctx context.Context, t message.Topic) error {
	for range attempts {
		r, err := s.known(ctx, t)
		if err != nil || r.Number == 0 {
			return err
		}
		marked := r
		if r.Mark == 0 { // otherwise the mark of another call serves as well: this one looks after it
			marked.Mark = topic.NewNumber()
			if won, err := s.step(ctx, r, marked); err != nil {
				return err
			} else if !won {
				continue
			}
		}
		free, err := s.unused(ctx, marked)
		if err != nil {
			return err
		}
		if !free {
			continue
		}
		if removed, err := s.step(ctx, marked, topic.Record{Topic: t}); removed || err != nil {
			return err
		}
	}
	return contended(t)
}

// unused returns an *InUseError if there are topics below a topic, or users are subscribed to it. If it returns false and no error, it has removed
// what other calls had left, and must be asked again.
func (s *Service) unused(ctx context.Context, r topic.Record) (bool, error) {
	below, err := s.store.List(ctx, r.Topic, r.Topic, 1)
	if err != nil {
		return false, err
	}
	if len(below) > 0 {
		if below[0].InForce {
			return false, &InUseError{Topic: r.Topic, Below: true}
		}
		return false, s.finish(ctx, below[0])
	}
	found, err := s.subscribed(ctx, r.Topic)
	if err == nil && found {
		err = &InUseError{Topic: r.Topic}
	}
	return err == nil, err
}

// edgesPerLook is how many edges one look reads. Most of those to a topic that is deleted have ended.
const edgesPerLook = 1000

// subscribed reports whether an edge to a topic holds.
func (s *Service) subscribed(ctx context.Context, t message.Topic) (bool, error) {
	for p := range s.opts.Partitions {
		for after := message.UserID(""); ; {
			edges, err := s.edges.Followers(ctx, t.Source(), p, after, edgesPerLook)
			if err != nil {
				return false, err
			}
			for _, e := range edges {
				if e.Open() {
					return true, nil
				}
			}
			if len(edges) < edgesPerLook {
				break
			}
			after = edges[len(edges)-1].Follower
		}
	}
	return false, nil
}

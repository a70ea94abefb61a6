// Package topics creates, lists and deletes topics, and subscribes users to them.
//
// A subscription is an edge to a topic. A topic, the topics below it and the edges to it are records that no store changes together, so
// each change is several writes. Of two simultaneous calls, one sees the other. A call that removes a topic marks it, then looks for topics
// below it and for subscriptions. It removes the topic only if the mark is still there. A call that has written a topic below it or a
// subscription looks at the topic afterwards, and removes the mark. If a call dies, another call finishes its work.
// docs/adr/0071-closing-a-topic.md has the rules, and test/proof/close.go the proof.
package topics

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fanmail/fanmail/internal/following"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/topic"
)

var (
	// ErrNotFound means that there is no such topic.
	ErrNotFound = errors.New("there is no such topic")
	// ErrContended means that other calls changed a topic again and again meanwhile. The call may be repeated.
	ErrContended = errors.New("other calls change the topic at the same time")
)

// InUseError says why a topic cannot be deleted.
type InUseError struct {
	Topic message.Topic
	// Below is true if there are topics below it, and false if users are subscribed to it.
	Below bool
}

// Error names the topic and what to do.
func (e *InUseError) Error() string {
	if e.Below {
		return fmt.Sprintf("there are topics below %s: delete those first", e.Topic)
	}
	return fmt.Sprintf("users are subscribed to %s: it can be deleted when they have unsubscribed", e.Topic)
}

// attempts is how often a call begins again because other calls change the same topic.
const attempts = 50

// Options configures a Service. All fields are required.
type Options struct {
	// Partitions is the store's partition count.
	Partitions int
	Now        func() time.Time
}

// Service creates, lists and deletes topics, and subscribes users to them. It is safe for concurrent use. Topics and users that it is given must
// be valid.
type Service struct {
	store     topic.Store
	edges     follow.Store
	following *following.Service
	opts      Options
}

// New returns a Service. following changes edges in the given store.
func New(store topic.Store, edges follow.Store, following *following.Service, opts Options) *Service {
	return &Service{store: store, edges: edges, following: following, opts: opts}
}

// Get returns nil if a topic exists, and ErrNotFound otherwise.
func (s *Service) Get(ctx context.Context, t message.Topic) error {
	r, err := s.known(ctx, t)
	if err == nil && !r.InForce {
		err = ErrNotFound
	}
	return err
}

// Unknown returns those of the topics that do not exist, in their order.
func (s *Service) Unknown(ctx context.Context, topics []message.Topic) (unknown []message.Topic, err error) {
	records, err := s.knownAll(ctx, topics)
	for _, r := range records {
		if !r.InForce {
			unknown = append(unknown, r.Topic)
		}
	}
	return unknown, err
}

// List returns at most limit topics above after, ascending: the topic under and all topics below it. An empty topic under stands for all
// topics. The second result is the value of after for the next call, or "" at the end.
func (s *Service) List(ctx context.Context, under, after message.Topic, limit int) (topics []message.Topic, next message.Topic, err error) {
	topics = []message.Topic{}
	for {
		asked := limit + 1 - len(topics)
		records, err := s.store.List(ctx, under, after, asked)
		if err != nil {
			return nil, "", err
		}
		for _, r := range records {
			if r.InForce {
				topics = append(topics, r.Topic)
			}
		}
		switch {
		case len(topics) > limit:
			return topics[:limit], topics[limit-1], nil
		case len(records) < asked:
			return topics, "", nil
		}
		after = records[len(records)-1].Topic
	}
}

// known returns the record of a topic, which is in force or absent. It finishes a topic that is not in force yet.
func (s *Service) known(ctx context.Context, t message.Topic) (topic.Record, error) {
	for range attempts {
		records, err := s.store.Get(ctx, []message.Topic{t})
		if err != nil {
			return topic.Record{}, err
		}
		r := records[0]
		if r.Number == 0 || r.InForce {
			return r, nil
		}
		if err := s.finish(ctx, r); err != nil {
			return topic.Record{}, err
		}
	}
	return topic.Record{}, contended(t)
}

// knownAll is known for several topics. The records are in the order of topics.
func (s *Service) knownAll(ctx context.Context, topics []message.Topic) ([]topic.Record, error) {
	records, err := s.store.Get(ctx, topics)
	for i, r := range records {
		if r.Number == 0 || r.InForce {
			continue
		}
		if records[i], err = s.known(ctx, r.Topic); err != nil {
			return nil, err
		}
	}
	return records, err
}

// unmarked returns the record of a topic, which is in force without a mark if it has the given number. A caller that has written a child or
// a subscription with this number can rely on the topic: a deletion looks for them after it has set a mark.
func (s *Service) unmarked(ctx context.Context, t message.Topic, number topic.Number) (topic.Record, error) {
	for range attempts {
		r, err := s.known(ctx, t)
		if err != nil || r.Number != number || r.Mark == 0 {
			return r, err
		}
		to := r
		to.Mark = 0
		if done, err := s.step(ctx, r, to); done || err != nil {
			return to, err
		}
	}
	return topic.Record{}, contended(t)
}

// step carries out one step, and reports whether its result is stored.
func (s *Service) step(ctx context.Context, from, to topic.Record) (bool, error) {
	records, err := s.store.Step(ctx, []topic.Change{{From: from, To: to}})
	return err == nil && records[0] == to, err
}

func contended(t message.Topic) error { return fmt.Errorf("topic %s: %w", t, ErrContended) }

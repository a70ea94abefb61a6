package storemetrics

import (
	"context"

	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/topic"
)

// Topics returns a store that measures each call and passes it to the given store.
func (m *Metrics) Topics(store topic.Store) topic.Store {
	return &topics{Store: store, get: m.operation("topics.get"), step: m.operation("topics.step"), list: m.operation("topics.list")}
}

type topics struct {
	topic.Store

	get, step, list operation
}

func (s *topics) Get(ctx context.Context, all []message.Topic) (_ []topic.Record, err error) {
	defer s.get.done(ctx, s.get.now(), &err)
	return s.Store.Get(ctx, all)
}

func (s *topics) Step(ctx context.Context, steps []topic.Step) (_ []topic.Record, err error) {
	defer s.step.done(ctx, s.step.now(), &err)
	return s.Store.Step(ctx, steps)
}

func (s *topics) List(ctx context.Context, under, after message.Topic, limit int) (_ []topic.Record, err error) {
	defer s.list.done(ctx, s.list.now(), &err)
	return s.Store.List(ctx, under, after, limit)
}

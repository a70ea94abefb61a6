package storemetrics

import (
	"context"
	"time"

	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/pkg/message"
)

// Progress returns a store that measures each call and passes it to the given store.
func (m *Metrics) Progress(store progress.Store) progress.Store {
	return &fanouts{
		Store:   store,
		plan:    m.operation("progress.plan"),
		get:     m.operation("progress.get"),
		getMany: m.operation("progress.get_many"),
		scans:   m.operation("progress.scans"),
		step:    m.operation("progress.step"),
		touch:   m.operation("progress.touch"),
		list:    m.operation("progress.list"),
		remove:  m.operation("progress.remove"),
	}
}

type fanouts struct {
	progress.Store

	plan, get, getMany, scans, step, touch, list, remove operation
}

func (s *fanouts) Plan(ctx context.Context, id message.ID, partitions []int, now time.Time) (fanout progress.Fanout, err error) {
	defer s.plan.done(ctx, s.plan.now(), &err)
	return s.Store.Plan(ctx, id, partitions, now)
}

func (s *fanouts) Get(ctx context.Context, id message.ID) (fanout progress.Fanout, err error) {
	defer s.get.done(ctx, s.get.now(), &err)
	return s.Store.Get(ctx, id)
}

func (s *fanouts) GetMany(ctx context.Context, ids []message.ID) (all []progress.Fanout, ok []bool, err error) {
	defer s.getMany.done(ctx, s.getMany.now(), &err)
	return s.Store.GetMany(ctx, ids)
}

func (s *fanouts) Scans(ctx context.Context, partition int, ids []message.ID) (scans []progress.Scan, ok []bool, err error) {
	defer s.scans.done(ctx, s.scans.now(), &err)
	return s.Store.Scans(ctx, partition, ids)
}

func (s *fanouts) Step(ctx context.Context, all []progress.Step, now time.Time) (stepped []progress.Stepped, err error) {
	defer s.step.done(ctx, s.step.now(), &err)
	return s.Store.Step(ctx, all, now)
}

func (s *fanouts) Touch(ctx context.Context, id message.ID, now time.Time, idle time.Duration) (touched bool, err error) {
	defer s.touch.done(ctx, s.touch.now(), &err)
	return s.Store.Touch(ctx, id, now, idle)
}

func (s *fanouts) List(ctx context.Context, after, upTo message.ID, limit int) (found []progress.Found, err error) {
	defer s.list.done(ctx, s.list.now(), &err)
	return s.Store.List(ctx, after, upTo, limit)
}

func (s *fanouts) Remove(ctx context.Context, ids []message.ID) (err error) {
	defer s.remove.done(ctx, s.remove.now(), &err)
	return s.Store.Remove(ctx, ids)
}

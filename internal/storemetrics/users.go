package storemetrics

import (
	"context"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// Users returns a store that measures each call and passes it to the given store.
func (m *Metrics) Users(store userstate.Store) userstate.Store {
	return &users{
		Store:       store,
		raiseHeads:  m.operation("users.raise_heads"),
		lookup:      m.operation("users.lookup"),
		view:        m.operation("users.view"),
		step:        m.operation("users.step"),
		due:         m.operation("users.due"),
		list:        m.operation("users.list"),
		setReadMark: m.operation("users.set_read_mark"),
	}
}

type users struct {
	userstate.Store

	raiseHeads, lookup, view, step, due, list, setReadMark operation
}

func (s *users) RaiseHeads(ctx context.Context, heads []bucket.Head) (err error) {
	defer s.raiseHeads.done(ctx, s.raiseHeads.now(), &err)
	return s.Store.RaiseHeads(ctx, heads)
}

func (s *users) Lookup(ctx context.Context, users []message.UserID) (_ []userstate.Looked, err error) {
	defer s.lookup.done(ctx, s.lookup.now(), &err)
	return s.Store.Lookup(ctx, users)
}

func (s *users) View(ctx context.Context, views []userstate.View) (viewed []userstate.Viewed, err error) {
	defer s.view.done(ctx, s.view.now(), &err)
	return s.Store.View(ctx, views)
}

func (s *users) Step(ctx context.Context, all []userstate.Step) (stepped []userstate.Stepped, err error) {
	defer s.step.done(ctx, s.step.now(), &err)
	return s.Store.Step(ctx, all)
}

func (s *users) Due(ctx context.Context, dead userstate.Dead, limit int) (_ []userstate.Looked, err error) {
	defer s.due.done(ctx, s.due.now(), &err)
	return s.Store.Due(ctx, dead, limit)
}

func (s *users) List(ctx context.Context, partition int, after message.UserID, limit int) (_ []userstate.Looked, err error) {
	defer s.list.done(ctx, s.list.now(), &err)
	return s.Store.List(ctx, partition, after, limit)
}

func (s *users) SetReadMark(ctx context.Context, user message.UserID, mark bucket.ReadMark) (held bucket.ReadMark, err error) {
	defer s.setReadMark.done(ctx, s.setReadMark.now(), &err)
	return s.Store.SetReadMark(ctx, user, mark)
}

package main

import (
	"context"

	"github.com/fanmail/fanmail/internal/retention"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
)

type walk struct {
	retention.Store
	failpoint *failpoint
}

func (w walk) Replace(ctx context.Context, from, to retention.Round) error {
	return w.failpoint.pass(pointWalk, 1, func(int) error { return w.Store.Replace(ctx, from, to) })
}

func (m messages) Conclude(ctx context.Context, all []message.Ending) error {
	return m.failpoint.pass(pointConclude, len(all), func(n int) error { return m.Store.Conclude(ctx, all[:n]) })
}

func (m messages) Remove(ctx context.Context, refs []message.Ref) error {
	return m.failpoint.pass(pointRemoveMessages, len(refs), func(n int) error { return m.Store.Remove(ctx, refs[:n]) })
}

func (s fanouts) Remove(ctx context.Context, ids []message.ID) error {
	return s.failpoint.pass(pointRemovePlans, len(ids), func(n int) error { return s.Store.Remove(ctx, ids[:n]) })
}

type edges struct {
	follow.Store
	failpoint *failpoint
}

func (e edges) Remove(ctx context.Context, all []follow.Edge) error {
	return e.failpoint.pass(pointRemoveEdges, len(all), func(n int) error { return e.Store.Remove(ctx, all[:n]) })
}

package storemetrics

import (
	"context"

	"github.com/fanmail/fanmail/pkg/identity"
	"github.com/fanmail/fanmail/pkg/message"
)

// Identities returns a store that measures each call and passes it to the given store.
func (m *Metrics) Identities(store identity.Store) identity.Store {
	return &identities{
		Store:        store,
		lookup:       m.operation("identities.lookup"),
		insert:       m.operation("identities.insert"),
		confirm:      m.operation("identities.confirm"),
		withdraw:     m.operation("identities.withdraw"),
		remove:       m.operation("identities.remove"),
		lists:        m.operation("identities.lists"),
		replaceLists: m.operation("identities.replace_lists"),
	}
}

type identities struct {
	identity.Store

	lookup, insert, confirm, withdraw, remove, lists, replaceLists operation
}

func (s *identities) Lookup(ctx context.Context, ids []identity.Identity) (_ []identity.Looked, err error) {
	defer s.lookup.done(ctx, s.lookup.now(), &err)
	return s.Store.Lookup(ctx, ids)
}

func (s *identities) Insert(ctx context.Context, records []identity.Record) (_ []identity.Looked, err error) {
	defer s.insert.done(ctx, s.insert.now(), &err)
	return s.Store.Insert(ctx, records)
}

func (s *identities) Confirm(ctx context.Context, records []identity.Record) (_ []identity.Looked, err error) {
	defer s.confirm.done(ctx, s.confirm.now(), &err)
	return s.Store.Confirm(ctx, records)
}

func (s *identities) Withdraw(ctx context.Context, r identity.Record) (_ bool, err error) {
	defer s.withdraw.done(ctx, s.withdraw.now(), &err)
	return s.Store.Withdraw(ctx, r)
}

func (s *identities) Remove(ctx context.Context, r identity.Record) (err error) {
	defer s.remove.done(ctx, s.remove.now(), &err)
	return s.Store.Remove(ctx, r)
}

func (s *identities) Lists(ctx context.Context, users []message.UserID) (_ []identity.LookedList, err error) {
	defer s.lists.done(ctx, s.lists.now(), &err)
	return s.Store.Lists(ctx, users)
}

func (s *identities) ReplaceLists(ctx context.Context, changes []identity.Change) (_ []error, err error) {
	defer s.replaceLists.done(ctx, s.replaceLists.now(), &err)
	return s.Store.ReplaceLists(ctx, changes)
}

package storemetrics

import (
	"context"
	"time"

	"github.com/fanmail/fanmail/pkg/message"
)

// Messages returns a store that measures each call and passes it to the given store.
func (m *Metrics) Messages(store message.Store) message.Store {
	return &messages{
		Store:            store,
		insert:           m.operation("messages.insert"),
		get:              m.operation("messages.get"),
		getMany:          m.operation("messages.get_many"),
		toFollowers:      m.operation("messages.to_followers"),
		countToFollowers: m.operation("messages.count_to_followers"),
		naming:           m.operation("messages.naming"),
		anyAfter:         m.operation("messages.any_after"),
		unfinished:       m.operation("messages.unfinished"),
		condemn:          m.operation("messages.condemn"),
		finish:           m.operation("messages.finish"),
		endings:          m.operation("messages.endings"),
		conclude:         m.operation("messages.conclude"),
		oldest:           m.operation("messages.oldest"),
		remove:           m.operation("messages.remove"),
	}
}

type messages struct {
	message.Store

	insert, get, getMany, toFollowers, countToFollowers, naming, anyAfter, unfinished, condemn, finish operation
	endings, conclude, oldest, remove                                                                  operation
}

func (s *messages) Insert(ctx context.Context, all []message.Message, timing message.Timing) (stamps []message.Stamp, err error) {
	defer s.insert.done(ctx, s.insert.now(), &err)
	return s.Store.Insert(ctx, all, timing)
}

func (s *messages) Get(ctx context.Context, ref message.Ref) (stored message.Stored, err error) {
	defer s.get.done(ctx, s.get.now(), &err)
	return s.Store.Get(ctx, ref)
}

func (s *messages) GetMany(ctx context.Context, refs []message.Ref) (found []message.Found, err error) {
	defer s.getMany.done(ctx, s.getMany.now(), &err)
	return s.Store.GetMany(ctx, refs)
}

func (s *messages) ToFollowers(
	ctx context.Context, ranges []message.Range, order message.Order, limit int,
) (stored []message.Stored, err error) {
	defer s.toFollowers.done(ctx, s.toFollowers.now(), &err)
	return s.Store.ToFollowers(ctx, ranges, order, limit)
}

func (s *messages) CountToFollowers(ctx context.Context, ranges []message.Range, slack time.Duration) (n int64, err error) {
	defer s.countToFollowers.done(ctx, s.countToFollowers.now(), &err)
	return s.Store.CountToFollowers(ctx, ranges, slack)
}

func (s *messages) Naming(
	ctx context.Context, user message.UserID, after, before message.ID, order message.Order, limit int,
) (stored []message.Stored, err error) {
	defer s.naming.done(ctx, s.naming.now(), &err)
	return s.Store.Naming(ctx, user, after, before, order, limit)
}

func (s *messages) AnyAfter(ctx context.Context, after message.ID, slack time.Duration) (found bool, err error) {
	defer s.anyAfter.done(ctx, s.anyAfter.now(), &err)
	return s.Store.AnyAfter(ctx, after, slack)
}

func (s *messages) Unfinished(ctx context.Context, after message.ID, limit int) (refs []message.Ref, err error) {
	defer s.unfinished.done(ctx, s.unfinished.now(), &err)
	return s.Store.Unfinished(ctx, after, limit)
}

func (s *messages) Condemn(ctx context.Context, ref message.Ref) (stored message.Stored, err error) {
	defer s.condemn.done(ctx, s.condemn.now(), &err)
	return s.Store.Condemn(ctx, ref)
}

func (s *messages) Finish(ctx context.Context, refs []message.Ref) (err error) {
	defer s.finish.done(ctx, s.finish.now(), &err)
	return s.Store.Finish(ctx, refs)
}

func (s *messages) Endings(ctx context.Context, refs []message.Ref) (fates []message.Fate, err error) {
	defer s.endings.done(ctx, s.endings.now(), &err)
	return s.Store.Endings(ctx, refs)
}

func (s *messages) Conclude(ctx context.Context, conclusions []message.Conclusion) (err error) {
	defer s.conclude.done(ctx, s.conclude.now(), &err)
	return s.Store.Conclude(ctx, conclusions)
}

func (s *messages) Oldest(ctx context.Context, after, upTo message.ID, limit int) (old []message.Old, err error) {
	defer s.oldest.done(ctx, s.oldest.now(), &err)
	return s.Store.Oldest(ctx, after, upTo, limit)
}

func (s *messages) Remove(ctx context.Context, refs []message.Ref) (err error) {
	defer s.remove.done(ctx, s.remove.now(), &err)
	return s.Store.Remove(ctx, refs)
}

// Keys returns a store that measures each call and passes it to the given store.
func (m *Metrics) Keys(store message.KeyStore) message.KeyStore {
	return &keys{
		KeyStore: store,
		reserve:  m.operation("keys.reserve"),
		find:     m.operation("keys.find"),
		replace:  m.operation("keys.replace"),
		forget:   m.operation("keys.forget"),
		latest:   m.operation("keys.latest"),
	}
}

type keys struct {
	message.KeyStore

	reserve, find, replace, forget, latest operation
}

func (s *keys) Reserve(ctx context.Context, k message.Key, now time.Time) (held message.Key, err error) {
	defer s.reserve.done(ctx, s.reserve.now(), &err)
	return s.KeyStore.Reserve(ctx, k, now)
}

func (s *keys) Find(ctx context.Context, from message.UserID, key string, now time.Time) (found message.Key, ok bool, err error) {
	defer s.find.done(ctx, s.find.now(), &err)
	return s.KeyStore.Find(ctx, from, key, now)
}

func (s *keys) Replace(ctx context.Context, old message.Key, id message.ID) (err error) {
	defer s.replace.done(ctx, s.replace.now(), &err)
	return s.KeyStore.Replace(ctx, old, id)
}

func (s *keys) Forget(ctx context.Context, now time.Time, limit int) (n int, err error) {
	defer s.forget.done(ctx, s.forget.now(), &err)
	return s.KeyStore.Forget(ctx, now, limit)
}

func (s *keys) Latest(ctx context.Context) (expires time.Time, err error) {
	defer s.latest.done(ctx, s.latest.now(), &err)
	return s.KeyStore.Latest(ctx)
}

package retention

import (
	"context"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// TrimUser is Trim for a user whose state it reads. The emptying of the buckets follows.
func (w *Walker) TrimUser(ctx context.Context, user message.UserID) error {
	state, err := userstate.Get(ctx, w.stores.Users, user)
	if err != nil {
		return err
	}
	trimmed, _, err := w.Trim(ctx, state)
	if state.Purged.Less(trimmed.Purged) {
		w.Purged(user)
	}
	return err
}

// Trim raises the user's purge point, so that the newest messages remain: as many as the user's retention says, and those that were sent in
// the same millisecond as the last of them. It returns the state afterwards, and how many messages have expired. It starts from a state that the caller
// has read. It is idempotent, and does not block.
//
// It reads those messages only if there are a quarter more, so that the work for one message does not depend on how many remain. It writes
// nothing if nothing expires. Messages that may not have settled remain: see userstate.Rules.Settled. While the clocks disagree, all remain.
func (w *Walker) Trim(ctx context.Context, state userstate.State) (userstate.State, int64, error) {
	newest := state.Keep.Within(w.opts.Retention()).Newest
	if newest == 0 || !state.Known() {
		return state, 0, nil
	}
	if more, err := w.exceeds(ctx, state, newest); err != nil || !more {
		return state, 0, err
	}
	rules := w.opts.Rules()
	trim, err := bucket.ReadTrim(ctx, w.stores.Buckets, bucket.TrimRequest{
		Owner: state.User, Hint: state.Head, Purged: state.Purged, Gaps: state.Gaps, Oldest: state.Oldest, Newest: newest,
		OnRead: w.purger.Rehydrator.Feed(state.User, rules).Newest,
	})
	if err != nil {
		return state, 0, err
	}
	now, agree, err := w.opts.Clock(ctx)
	if err != nil || !agree {
		return state, 0, err
	}
	to := trim.UpTo
	if settled := rules.Settled(now); settled.Less(to) {
		to = settled
	}
	if !state.Purged.Less(to) {
		return state, 0, nil
	}
	if first, oldest, err := earliest(ctx, w.stores.Buckets, state, to.Next()); err != nil || to.Less(first) && !w.deleted(oldest, state, to) {
		return state, 0, err
	}
	state, expired, err := w.purger.Raise(ctx, state, to)
	if err == nil {
		w.metrics.trimmed.Inc()
		w.metrics.trimmedMessages.Add(float64(expired))
	}
	return state, expired, err
}

// exceeds reports whether a quarter more messages of a user may be left than the newest, deleted ones included. It may count messages that have
// expired, but leaves none out that Trim would find.
func (w *Walker) exceeds(ctx context.Context, state userstate.State, newest int64) (bool, error) {
	heads, err := w.stores.Buckets.Heads(ctx, []bucket.Head{{Owner: state.User, Hint: state.Head}})
	if err != nil {
		return false, err
	}
	in := bucket.Inventory{Basis: bucket.Basis{Gaps: state.Gaps}, Slots: heads[0].End(w.stores.Buckets.Size())}
	if bucket.Counts(in).Total-newest <= newest/4 {
		return false, nil
	}
	deletions, err := bucket.ReadDeletions(ctx, w.stores.Buckets, state.User, state.Oldest)
	if err != nil {
		return false, err
	}
	in.Expired, err = bucket.ReadExpired(ctx, w.stores.Buckets, state.User, heads[0], state.Purged, state.Oldest)
	if err != nil {
		return false, err
	}
	all := bucket.Counts(in).Total
	in.Deletions = deletions
	return bucket.Counts(in).Total >= newest && all-newest > newest/4, nil
}

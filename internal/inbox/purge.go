package inbox

import (
	"context"
	"time"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// Removed reports whether a message has expired in a user's inbox, or whether the user has deleted it.
func Removed(ctx context.Context, stores Stores, user message.UserID, id message.ID) (bool, error) {
	state, err := userstate.Get(ctx, stores.Users, user)
	if err != nil || !state.Purged.Less(id) {
		return err == nil, err
	}
	return bucket.Deleted(ctx, stores.Buckets, user, state.Head, id)
}

// Purge lets all messages of a user expire that were sent at a time or before, permanently, and returns how many. These are the messages in
// buckets and gaps that had not expired. A message that is deleted, or that is not there yet, does not count. With dry, Purge changes nothing.
//
// It returns a *message.InvalidError for a time in the future, and userstate.ErrNotFound for a
// user never seen. It is idempotent: a repetition returns 0. It writes one record, and the emptying of buckets follows.
func (s *Service) Purge(ctx context.Context, user message.UserID, until time.Time, dry bool) (int64, error) {
	now, _, err := s.opts.Clock(ctx) // not that of this host: what has expired is gone
	switch {
	case err != nil:
		return 0, err
	case until.After(now):
		return 0, &message.InvalidError{Field: "until", Reason: "is in the future: give the time up to which messages expire"}
	case until.UnixMilli() <= 0:
		return 0, &message.InvalidError{Field: "until", Reason: "is not after 1970: give the time up to which messages expire"}
	}
	state, err := s.known(ctx, user)
	if err != nil {
		return 0, err
	}
	to := message.LastBefore(until.Truncate(time.Millisecond).Add(time.Millisecond))
	if dry {
		return s.purger.Count(ctx, state, to)
	}
	_, expired, err := s.purger.Raise(ctx, state, to)
	return expired, err
}

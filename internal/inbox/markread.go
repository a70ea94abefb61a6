package inbox

import (
	"context"
	"fmt"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// MarkRead marks all messages up to and including the given one as read, unless the stored mark is further (by UpTo). It never marks
// a message unread. It returns userstate.ErrNotFound for a user never seen. It waits while the inbox is being rebuilt, and returns
// rehydrate.ErrUnfinished if that takes too long.
//
// The store refuses a mark that knows fewer slots or gaps than the stored one: the messages in the others would become unread.
// MarkRead then makes a new mark. Slots and gaps only grow, so only a mark that another call has set since can refuse the new one. UpTo of
// the stored mark may also fall: see MendReadMark.
func (s *Service) MarkRead(ctx context.Context, user message.UserID, upTo message.ID) error {
	for {
		state, err := s.rehydrator.Complete(ctx, user)
		switch {
		case err != nil:
			return err
		case !state.Known():
			return fmt.Errorf("%s: %w", user, userstate.ErrNotFound)
		}
		mark, err := s.readMark(ctx, state, upTo)
		if err != nil {
			return err
		}
		stored, err := s.stores.Users.SetReadMark(ctx, user, mark)
		if err != nil || !stored.UpTo.Less(upTo) {
			return err
		}
		if was := state.ReadMark; mark.Slots < was.Slots || mark.Gaps < was.Gaps {
			return fmt.Errorf("read mark of %s: it counts %d slots and %d gaps, and the inbox has %d and %d: %w",
				user, was.Slots, was.Gaps, mark.Slots, mark.Gaps, message.ErrCorrupt)
		}
	}
}

// readMark returns a mark of the inbox as it is now, with the gaps of the given state.
func (s *Service) readMark(ctx context.Context, state userstate.State, upTo message.ID) (bucket.ReadMark, error) {
	mark, err := bucket.NewReadMark(ctx, s.stores.Buckets, state.User, state.Head, upTo)
	if err != nil {
		return bucket.ReadMark{}, err
	}
	mark.Gaps = len(state.Gaps)
	return mark, s.addGaps(ctx, s.lazyFeed(state.User, s.opts.Rules()), state.Gaps, &mark)
}

// addGaps adds the messages of gaps that are at or below the mark to those that it says are read.
func (s *Service) addGaps(ctx context.Context, feed *lazyFeed, gaps []bucket.Gap, mark *bucket.ReadMark) error {
	for _, gap := range gaps {
		read := gap.Messages
		if stretch := gap.Stretch(); mark.UpTo.Less(stretch.Before) {
			stretch.Before = mark.UpTo.Next()
			found, err := feed.count(ctx, stretch)
			if err != nil {
				return err
			}
			read = min(read, found) // a message may have become visible after the gap was counted
		}
		mark.Read += read
	}
	return nil
}

// MendReadMark lowers a user's read mark that is up to a void message, and reports whether it did: see bucket.MendedReadMark. Call it
// after bucket.Repair. It is idempotent. It leaves the mark to the next call if another request changes it meanwhile.
func (s *Service) MendReadMark(ctx context.Context, user message.UserID, void bucket.Judge) (bool, error) {
	state, err := s.state(ctx, user)
	if err != nil {
		return false, err
	}
	mark := state.ReadMark
	if mark.UpTo.IsZero() {
		return false, nil
	}
	verdicts, err := void(ctx, []message.Ref{{ID: mark.UpTo}})
	if err != nil || !verdicts[mark.UpTo] {
		return false, err
	}
	feed, gaps := s.lazyFeed(user, s.opts.Rules()), state.Gaps[:min(mark.Gaps, len(state.Gaps))]
	newest, err := newestIn(ctx, feed, gaps, mark.UpTo)
	if err != nil {
		return false, err
	}
	mended, can, err := bucket.MendedReadMark(ctx, s.stores.Buckets, user, mark, newest, void)
	if err != nil || !can {
		return false, err
	}
	if err := s.addGaps(ctx, feed, gaps, &mended); err != nil {
		return false, err
	}
	return s.stores.Users.MendReadMark(ctx, user, mark, mended)
}

// newestIn returns the greatest id at or below upTo of a message in gaps, or zero.
func newestIn(ctx context.Context, feed *lazyFeed, gaps []bucket.Gap, upTo message.ID) (newest message.ID, err error) {
	for _, gap := range gaps {
		stretch := gap.Stretch().Within(bucket.Stretch{After: newest, Before: upTo.Next()})
		if stretch.Empty() {
			continue
		}
		found, err := feed.newest(ctx, stretch, 1)
		if err != nil {
			return newest, err
		}
		for _, e := range found {
			newest = e.ID
		}
	}
	return newest, nil
}

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
// MarkRead then makes a new mark. Slots and gaps only grow, so only a mark that another call has set since can refuse the new one.
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
		if was := state.ReadMark; !mark.Covers(was) {
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
	feed := s.lazyFeed(state.User, s.opts.Rules())
	for _, gap := range state.Gaps {
		read := gap.Messages
		if stretch := gap.Stretch(); upTo.Less(stretch.Before) {
			stretch.Before = upTo.Next()
			found, err := feed.count(ctx, stretch)
			if err != nil {
				return bucket.ReadMark{}, err
			}
			read = min(read, found) // a message may have become visible after the gap was counted
		}
		mark.Read += read
	}
	return mark, nil
}

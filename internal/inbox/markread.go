package inbox

import (
	"context"
	"fmt"

	"github.com/fanmail/fanmail/internal/rehydrate"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// MarkRead marks all messages up to and including the given one as read, unless the stored mark is further (by UpTo). It never marks
// a message unread. It returns userstate.ErrNotFound for a user never seen. It waits while the inbox is being rebuilt, and returns
// rehydrate.ErrUnfinished if that takes too long.
//
// The store refuses a mark if the user's state has changed since MarkRead read it. At format level 1, it refuses a mark that knows fewer
// slots or gaps than the stored one, because the messages in the others would become unread. Then MarkRead makes a new mark.
func (s *Service) MarkRead(ctx context.Context, user message.UserID, upTo message.ID) error {
	for {
		state, err := s.rehydrator.Complete(ctx, user)
		switch {
		case err != nil:
			return err
		case !state.Known():
			return fmt.Errorf("%s: %w", user, userstate.ErrNotFound)
		case upTo.Less(state.ReadMark.UpTo) || !state.Purged.Less(upTo): // there is a further mark, or all up to it has expired
			return nil
		}
		next, err := s.marked(ctx, state, upTo)
		if err != nil {
			return err
		}
		mark := next.ReadMark
		if was := state.ReadMark; !mark.Covers(was) {
			return fmt.Errorf("read mark of %s: it counts %d slots and %d gaps, and the inbox has %d and %d: %w",
				user, was.Slots, was.Gaps, mark.Slots, mark.Gaps, message.ErrCorrupt)
		}
		stored, err := s.setReadMark(ctx, state, next)
		if err != nil || upTo.Less(stored.UpTo) || stored.Covers(mark) {
			return err
		}
	}
}

// marked returns the state with a read mark of the inbox as it is now. From format level 2 on, the mark is numbered, and the gap in which it
// lies is counted.
func (s *Service) marked(ctx context.Context, state userstate.State, upTo message.ID) (_ userstate.State, err error) {
	rules := s.opts.Rules()
	feed, gaps := s.rehydrator.Feed(state.User, rules), state.Gaps
	if state.ReadMark, err = bucket.NewReadMark(ctx, s.stores.Buckets, state.User, state.Head, upTo); err != nil {
		return state, err
	}
	state.ReadMark.Gaps, state.ReadMark.Numbered = len(gaps), rules.Stored
	if rules.Stored {
		return counted(ctx, feed, state, upTo)
	}
	return state, addGaps(ctx, feed, gaps, &state.ReadMark)
}

// setReadMark stores the read mark of the state next, which was made from state, and returns the stored mark after the call. The number of
// a mark belongs to the gaps of that state, so a numbered mark is stored only if the state has not changed.
func (s *Service) setReadMark(ctx context.Context, state, next userstate.State) (bucket.ReadMark, error) {
	if !next.ReadMark.Numbered {
		return s.stores.Users.SetReadMark(ctx, state.User, next.ReadMark)
	}
	stepped, err := s.stores.Users.Step(ctx, []userstate.Step{{From: state, To: next}})
	if err != nil {
		return bucket.ReadMark{}, fmt.Errorf("read mark of %s: %w", state.User, err)
	}
	return stepped[0].State.ReadMark, nil
}

// addGaps adds the messages of gaps that are at or below the mark to those that it says are read.
func addGaps(ctx context.Context, feed *rehydrate.Feed, gaps []bucket.Gap, mark *bucket.ReadMark) error {
	for _, gap := range gaps {
		read := gap.Messages
		if stretch := gap.Stretch(); mark.UpTo.Less(stretch.Before) {
			stretch.Before = mark.UpTo.Next()
			found, err := feed.Count(ctx, stretch)
			if err != nil {
				return err
			}
			read = min(read, found) // a message may have become visible after the gap was counted
		}
		mark.Read += read
	}
	return nil
}

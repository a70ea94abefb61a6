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
// The number of a mark belongs to the gaps as they were read. So the store refuses a mark if the user's state has changed since MarkRead
// read it. Then MarkRead makes a new mark.
func (s *Service) MarkRead(ctx context.Context, user message.UserID, upTo message.ID) error {
	for {
		state, err := known(s.rehydrator.Complete(ctx, user))
		switch {
		case err != nil:
			return err
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
		stepped, err := s.stores.Users.Step(ctx, []userstate.Step{{From: state, To: next}})
		if err != nil {
			return fmt.Errorf("read mark of %s: %w", user, err)
		}
		if stored := stepped[0].State.ReadMark; upTo.Less(stored.UpTo) || stored.Covers(mark) {
			return nil
		}
	}
}

// marked returns the state with a read mark of the inbox as it is now. The gap in which the mark lies is counted.
func (s *Service) marked(ctx context.Context, state userstate.State, upTo message.ID) (_ userstate.State, err error) {
	if state.ReadMark, err = bucket.NewReadMark(ctx, s.stores.Buckets, state.User, state.Head, upTo); err != nil {
		return state, err
	}
	state.ReadMark.Gaps = len(state.Gaps)
	return counted(ctx, s.rehydrator.Feed(state.User, s.opts.Rules()), state, upTo)
}

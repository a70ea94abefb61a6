package inbox

import (
	"context"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// MarkSeen records that the user has seen all messages that the page with a cursor knew. An empty cursor stands for all that are there.
// It is idempotent. It returns userstate.ErrNotFound for a user never seen, and a *message.InvalidError for a
// cursor of another inbox or epoch.
func (s *Service) MarkSeen(ctx context.Context, user message.UserID, cursor string) error {
	at, err := s.readPosition(user, cursor)
	if err != nil {
		return err
	}
	state, err := known(s.state(ctx, user))
	if err != nil {
		return err
	}
	head, err := bucket.ReadHead(ctx, s.stores.Buckets, user, state.Head)
	if err != nil {
		return err
	}
	slots := head.End(s.stores.Buckets.Size())
	if cursor != "" {
		slots = min(slots, at.Slots)
	}
	for state.Seen < slots {
		to := state
		to.Seen = slots
		to.Marks++
		if state, _, err = s.step(ctx, userstate.Step{From: state, To: to}); err != nil {
			return err
		}
	}
	return nil
}

package progress

import (
	"context"
	"fmt"

	"github.com/fanmail/fanmail/pkg/message"
)

// Ender ends the fan-out of messages. The ending alone says that a message is done; a plan only shows how far it is. Several may end one message, each
// after a complete pass of its own: the first ending stays.
type Ender struct {
	Messages message.Store
	Plans    Store
	// Round returns the number of the present round through all users (package retention). It sees every round that had begun before the call.
	Round func(context.Context) (int64, error)
}

// EndPlanned ends those of the messages whose plans are done: it moves the counts into the messages, and then removes the plans. It returns the
// endings. It may be repeated.
func (e Ender) EndPlanned(ctx context.Context, refs []message.Ref) (endings []message.Ending, err error) {
	if len(refs) == 0 {
		return nil, nil
	}
	ids := make([]message.ID, len(refs))
	for i, ref := range refs {
		ids[i] = ref.ID
	}
	fanouts, planned, err := e.Plans.GetMany(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("read the progress of %d messages: %w", len(ids), err)
	}
	var over []message.ID
	for i, ref := range refs {
		if planned[i] && fanouts[i].Done() {
			ending := fanouts[i].Outcome()
			ending.Ref = ref
			over, endings = append(over, ref.ID), append(endings, ending)
		}
	}
	if err := e.End(ctx, endings); err != nil || len(endings) == 0 {
		return nil, err
	}
	if err := e.Plans.Remove(ctx, over); err != nil {
		return nil, fmt.Errorf("remove the plans of %d messages: %w", len(over), err)
	}
	return endings, nil
}

// End writes the endings of messages of which every recipient is handled. It survives a crash. End reads the round after that: only what a later round
// finds proves that nobody has the message any more.
func (e Ender) End(ctx context.Context, endings []message.Ending) error {
	if len(endings) == 0 {
		return nil
	}
	round, err := e.Round(ctx)
	if err != nil {
		return fmt.Errorf("read the round through all users: %w", err)
	}
	for i := range endings {
		endings[i].Closed = round
	}
	if err := e.Messages.Conclude(ctx, endings); err != nil {
		return fmt.Errorf("conclude %d messages: %w", len(endings), err)
	}
	return nil
}

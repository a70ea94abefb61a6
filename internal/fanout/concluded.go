package fanout

import (
	"context"
	"fmt"

	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
)

// The plan of a message ends: its counts move into the message, and then the plan is removed. A repeated event would plan the message again,
// and deliver to users who have come to its audience since. So whoever finds or makes a plan looks at the message afterwards, never before: a
// look before says nothing about the plan.

// dropLate removes the plan of a message that is over, and reports whether it did. The caller has the plan, and it is not done: so a repeated
// event made it after the first plan had ended.
func (r *Router) dropLate(ctx context.Context, ref message.Ref) (bool, error) {
	over, err := isOver(ctx, r.stores.Messages, ref)
	if err != nil || !over {
		return false, err
	}
	if err := r.stores.Progress.Remove(ctx, []message.ID{ref.ID}); err != nil {
		return false, fmt.Errorf("remove the plan of %s: %w", ref.ID, err)
	}
	return true, nil
}

// isOver reports whether there is nothing left to fan out of a message.
func isOver(ctx context.Context, messages message.Store, ref message.Ref) (bool, error) {
	fates, err := messages.Endings(ctx, []message.Ref{ref})
	if err == nil {
		err = fates[0].Err
	}
	if err != nil {
		return false, fmt.Errorf("ending of %s: %w", ref.ID, err)
	}
	return fates[0].Over(), nil
}

// dropOver drops those of the unplanned messages that are over: their tasks are late repetitions. The router plans the others again.
func (b *batch) dropOver(ctx context.Context) error {
	if len(b.unplanned) == 0 {
		return nil
	}
	refs := make([]message.Ref, len(b.unplanned))
	for i, unplanned := range b.unplanned {
		refs[i] = unplanned.Ref()
	}
	fates, err := b.deliverer.stores.Messages.Endings(ctx, refs)
	if err != nil {
		return fmt.Errorf("endings of %d messages without a plan: %w", len(refs), err)
	}
	var rest []event.Published
	for i, unplanned := range b.unplanned {
		if !fates[i].Over() {
			rest = append(rest, unplanned)
		}
	}
	b.unplanned = rest
	return nil
}

package fanout

import (
	"context"
	"fmt"

	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
)

// The plan of a message ends: its counts move into the message, and then the plan is removed. A repeated event would plan the message again,
// and deliver to users who have come to its audience since. So a caller that finds or makes a plan looks at the message afterwards, never
// before: a look before says nothing about the plan.

// dropLate removes the plans of messages that are over, and empties their routes. The plans are there, and are not done: so repeated events made
// them after the first plans had ended.
func (r *Router) dropLate(ctx context.Context, routes []route) error {
	var open []int
	var refs []message.Ref
	for i, route := range routes {
		if route.planned != (message.Ref{}) {
			open, refs = append(open, i), append(refs, route.planned)
		}
	}
	if len(refs) == 0 {
		return nil
	}
	endings, err := r.stores.Messages.Endings(ctx, refs)
	if err != nil {
		return fmt.Errorf("endings of %d messages: %w", len(refs), err)
	}
	var late []message.ID
	for k, ending := range endings {
		switch {
		case ending.Err != nil:
			return fmt.Errorf("ending of %s: %w", refs[k].ID, ending.Err)
		case ending.Over():
			late = append(late, refs[k].ID)
			routes[open[k]] = route{span: routes[open[k]].span, finished: refs[k : k+1]}
		}
	}
	if len(late) == 0 {
		return nil
	}
	if err := r.stores.Progress.Remove(ctx, late); err != nil {
		return fmt.Errorf("remove the plans of %d messages: %w", len(late), err)
	}
	return nil
}

// isOver reports whether there is nothing left to fan out of a message.
func isOver(ctx context.Context, messages message.Store, ref message.Ref) (bool, error) {
	endings, err := messages.Endings(ctx, []message.Ref{ref})
	if err == nil {
		err = endings[0].Err
	}
	if err != nil {
		return false, fmt.Errorf("ending of %s: %w", ref.ID, err)
	}
	return endings[0].Over(), nil
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
	endings, err := b.deliverer.stores.Messages.Endings(ctx, refs)
	if err != nil {
		return fmt.Errorf("endings of %d messages without a plan: %w", len(refs), err)
	}
	var rest []event.Published
	for i, unplanned := range b.unplanned {
		if !endings[i].Over() {
			rest = append(rest, unplanned)
		}
	}
	b.unplanned = rest
	return nil
}

package cli

import (
	"context"
	"slices"

	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

// printFollowed prints an inbox and its changes until ctx ends, which is no error.
func (i *inboxCommand) printFollowed(ctx context.Context, c *client.Client, user message.UserID) error {
	var opts []client.LookOption
	if i.options.Peek {
		opts = append(opts, client.Peek())
	}
	var last client.Frame
	for frame, err := range c.Events(ctx, user, "", opts...) {
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil && i.output.json:
			err = i.output.line(frame)
		case err == nil:
			err = i.printFrame(user, last, frame)
		}
		if err != nil {
			return err
		}
		last = frame
	}
	return nil
}

// printFrame prints deleted messages and new ones, oldest first. It prints the counts if new messages do not explain that they have changed.
func (i *inboxCommand) printFrame(user message.UserID, last, frame client.Frame) error {
	for _, id := range frame.Gone {
		if err := printf(i.output.w, "deleted: %s\n", id); err != nil {
			return err
		}
	}
	counted := frame.Tally != last.Tally && len(frame.Messages) == 0
	if frame.Reset || counted || frame.Complete != last.Complete {
		if err := i.printTotals(i.output.w, user, client.InboxPage{Tally: frame.Tally, Complete: frame.Complete}); err != nil {
			return err
		}
	}
	slices.SortFunc(frame.Messages, func(a, b client.InboxMessage) int { return a.ID.Compare(b.ID) })
	return i.printMessages(frame.Messages)
}

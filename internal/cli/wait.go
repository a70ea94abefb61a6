package cli

import (
	"context"
	"time"

	"github.com/fanmail/fanmail/internal/cli/program"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

// A message to few recipients is done within milliseconds, a message to millions takes minutes. So polling begins at a high rate
// and slows down.
const (
	firstPoll = 5 * time.Millisecond
	lastPoll  = time.Second
)

// waitShowing polls the status of a message until its fan-out is done or --timeout is over, and returns the status. It shows the progress. With an
// error it returns the last status.
func waitShowing(ctx context.Context, p program.Process, c *client.Client, id message.ID, limit *timeout) (status client.Status, err error) {
	ctx, cancel := limit.within(ctx)
	defer cancel()
	bar := newProgress(p, "handled recipients", 0)
	defer bar.close()
	defer func() { err = limit.explain(ctx, id, status, err) }()
	for poll := firstPoll; ; poll = min(2*poll, lastPoll) {
		ask := c.Status
		if poll < lastPoll && 2*poll >= lastPoll { // the message takes long
			ask = c.Estimate
		}
		now, err := ask(ctx, id)
		if err != nil {
			return status, err
		}
		bar.expect(now.Fanout.Audience)
		now.Fanout.Audience = 0
		status = now
		bar.note = waits(status.Fanout)
		if bar.set(status.Fanout.Recipients); status.Fanout.State == message.StateDone {
			return status, nil
		}
		select {
		case <-ctx.Done():
			return status, ctx.Err()
		case <-time.After(poll):
		}
	}
}

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

// waitDone polls the status of a message until its fan-out is done, and returns the status. It calls seen with every status. With an error it
// returns the last status.
func waitDone(ctx context.Context, c *client.Client, id message.ID, seen func(client.Status)) (client.Status, error) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var status client.Status
	for poll := firstPoll; ; poll = min(2*poll, lastPoll) {
		select {
		case <-ctx.Done():
			return status, ctx.Err()
		case <-timer.C:
		}
		now, err := c.Status(ctx, id)
		if err != nil {
			return status, err
		}
		status = now
		seen(status)
		if status.Fanout.State == client.StateDone {
			return status, nil
		}
		timer.Reset(poll)
	}
}

// waitShowing is waitDone with a progress bar and --timeout.
func waitShowing(ctx context.Context, p program.Process, c *client.Client, id message.ID, limit *timeout) (client.Status, error) {
	ctx, cancel := limit.within(ctx)
	defer cancel()
	bar := newProgress(p, "handled recipients", 0)
	defer bar.close()
	status, err := waitDone(ctx, c, id, func(s client.Status) { bar.set(s.Fanout.Delivered + s.Fanout.Skipped) })
	return status, limit.explain(ctx, id, status, err)
}

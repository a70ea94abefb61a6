package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/fanmail/fanmail/internal/cli/program"
	"github.com/fanmail/fanmail/internal/duration"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

// timeout is the value of --timeout: how long a command waits. 0 means without limit.
type timeout time.Duration

const timeoutFlag = "timeout"

func (t *timeout) add(cmd *cobra.Command, usage string) {
	cmd.Flags().Var((*duration.Value)(t), timeoutFlag, usage)
	cmd.Flags().Lookup(timeoutFlag).DefValue = "" // the usage says it
}

// check returns a usage error for a --timeout that is not positive, or that a command without waiting flags does not use.
func (t *timeout) check(cmd *cobra.Command, waits bool, waiting string) error {
	switch {
	case !cmd.Flags().Changed(timeoutFlag):
		return nil
	case !waits:
		return program.Usagef("--timeout goes with %s", waiting)
	case *t <= 0:
		return program.Usagef("--timeout is %s: give more than 0s, or leave it out to wait without limit", t)
	}
	return nil
}

func (t *timeout) String() string { return duration.Text(time.Duration(*t)) }

// errTimeout is the cause of a context that ends because of --timeout.
var errTimeout = errors.New("the time of --timeout is over")

// within returns a context that ends with ctx, or after the timeout with the cause errTimeout.
func (t *timeout) within(ctx context.Context) (context.Context, context.CancelFunc) {
	if *t == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, time.Duration(*t), errTimeout)
}

// timedOut reports whether a context has ended because of --timeout.
func timedOut(ctx context.Context) bool { return errors.Is(context.Cause(ctx), errTimeout) }

// overdueError means that a message was not done within --timeout. It says how far its fan-out was.
type overdueError struct {
	id    message.ID
	after string
	// last is the last known status; zero if there is none.
	last client.Status
	err  error
}

func (e *overdueError) Error() string {
	if e.last.ID.IsZero() {
		return fmt.Sprintf("message %s: no status within %s: %v", e.id, e.after, e.err)
	}
	next := cmp.Or(waits(e.last.Fanout), ": its fan-out continues")
	return fmt.Sprintf("message %s is %s after %s, with %s handled%s, and 'fanmail status %s --wait' waits again",
		e.id, e.last.Fanout.State, e.after, plural(e.last.Fanout.Recipients, "recipient", "recipients"), next, e.id)
}

func (e *overdueError) Unwrap() error { return e.err }

// explain returns the error of a wait for a message in ctx. If --timeout has ended it, that is an *overdueError with the last known status.
func (t *timeout) explain(ctx context.Context, id message.ID, last client.Status, err error) error {
	if err == nil || !timedOut(ctx) {
		return err
	}
	return &overdueError{id: id, after: t.String(), last: last, err: err}
}

package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/fanmail/fanmail/internal/app"
	"github.com/fanmail/fanmail/internal/cli/program"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

func newStatus(p program.Process) *cobra.Command {
	wait, watching := false, false
	var limit timeout
	cmd := &cobra.Command{
		Use:   "status ID",
		Short: "Show the progress of a message",
		Long: "Show the progress of a message. Its state is pending, running or done. \"Delivered\" counts the recipients whose\n" +
			"inbox has the message. \"Skipped\" counts recipients who are dormant or were never seen. Both are final when the message\n" +
			"is done. A user becomes known by looking at the inbox, logging in or following, or by 'fanmail import users', but not\n" +
			"by edges that are imported.\n\n" +
			"With --watch the command prints progress, rate and remaining time every second until the message is done. They\n" +
			"are based on an estimate of the number of recipients. If the message is not done within --timeout, the command says\n" +
			"how far it is and exits with code 1.",
		Example: "  fanmail status 01981e6c-5f6a-7c43-9f0e-0d5c2b7f3a10 --watch",
		Args:    program.Exactly("ID"),
	}
	out := newOutput(p, cmd, "print the message and its status as JSON")
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until it is done")
	cmd.Flags().BoolVar(&watching, "watch", false, "print the progress every second until it is done")
	limit.add(cmd, "with --wait or --watch: how long to wait, such as 30s (default without limit)")
	return onServer(p, app.Publisher, cmd, func(ctx context.Context, c *client.Client, args []string) error {
		id, err := parseMessageID(args[0])
		if err != nil {
			return err
		}
		if wait && watching {
			return program.Usagef("--watch waits as well: give it without --wait")
		}
		if err := limit.check(cmd, wait || watching, "--wait or --watch"); err != nil {
			return err
		}
		var status client.Status
		switch {
		case watching:
			status, err = watch(ctx, p, out, c, id, &limit)
		case wait:
			status, err = waitShowing(ctx, p, c, id, &limit)
		default:
			status, err = c.Status(ctx, id)
		}
		if err != nil {
			return err
		}
		return out.print(status, func(w io.Writer) error { return printStatus(w, status) })
	})
}

func printStatus(w io.Writer, s client.Status) error {
	givenUp := ""
	if s.Fanout.GivenUp > 0 {
		givenUp = fmt.Sprintf("given up    in %s\n", plural(s.Fanout.GivenUp, "partition", "partitions"))
	}
	state, recipients := string(s.Fanout.State)+waits(s.Fanout), count(s.Fanout.Recipients)
	if s.Fanout.State != message.StateDone {
		recipients += " handled so far"
	}
	return printf(w, "message     %s\nfrom        %s\nsent        %s\nstate       %s\nrecipients  %s\ndelivered   %s\nskipped     %s%s\n%s",
		s.ID, program.Printable(string(s.From)), showTime(s.Sent.Time), state,
		recipients, count(s.Fanout.Delivered), count(s.Fanout.Skipped), whySkipped(s.Fanout.Skipped, s.Fanout.NeverSeen, s.Fanout.Blocked), givenUp)
}

// waits says what a message waits for, and until when, after a comma. It is empty if the message moves.
func waits(f client.Fanout) string {
	text := string(f.WaitingFor)
	switch {
	case text == "":
		return ""
	case f.WaitingFor != message.WaitingForWorker:
	case f.State == message.StatePending: // otherwise it would wait for a router
		text += " (no fan-out worker runs)"
	default:
		text += " (no fan-out worker runs, or none has time)"
	}
	if f.Until != nil {
		text += ", until about " + showTime(f.Until.Time)
	}
	return ", waits for: " + text
}

// whySkipped says why recipients were skipped, and when they get the message. It is empty if none was skipped.
func whySkipped(skipped, neverSeen, blocked int64) string {
	because := ", because"
	if blocked > 0 {
		because = fmt.Sprintf(", %s because they block the author, the others because", count(blocked))
	}
	switch {
	case skipped == 0:
		return ""
	case skipped == blocked:
		return ", because they block the author"
	case neverSeen >= skipped-blocked:
		return because + fmt.Sprintf(" %s never seen: a user becomes known by looking, logging in and mostly by following, and then gets the message",
			were(neverSeen))
	case neverSeen > 0:
		return because + fmt.Sprintf(" they are dormant, or were never seen, as at least %s: they get the message when they look", count(neverSeen))
	default:
		return because + " they are dormant or were never seen: they get the message when they look"
	}
}

func were(users int64) string {
	if users == 1 {
		return "1 user was"
	}
	return count(users) + " users were"
}

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/fanmail/fanmail/internal/app"
	"github.com/fanmail/fanmail/internal/cli/program"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/event"
)

func newDLQ(p program.Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dlq ACTION [ID...]",
		Short: "List dead letters, send them again, or drop them",
		Long: "List dead letters, send them again, or drop them. A dead letter is a task or an event that could not succeed. It\n" +
			"has the reason, the error, the number of attempts and the payload. The server keeps it until you redrive or drop\n" +
			"it, or until its message has expired for all users; no other work waits for it.\n\n" +
			"  list           List dead letters, oldest first, or those with a --reason.\n" +
			"  show ID        Show a whole dead letter.\n" +
			"  redrive ID...  Send dead letters to their queues again. Correct the cause first: a task that fails again becomes\n" +
			"                 another dead letter. You can repeat it, because no inbox gets a message twice.\n" +
			"  drop ID...     Drop dead letters permanently. Fan-out does not deliver to the recipients of a dropped task, and\n" +
			"                 its message counts as finished. The server logs each dropped letter.\n\n" +
			"The reason damaged stands for all messages that a user missed because of a damaged record: redriving delivers\n" +
			"them, and is refused while the record is damaged. Work that the server cannot read is refused, too: drop what is\n" +
			"malformed, and redrive what has the reason newer_version after the upgrade.",
		Example: "  fanmail dlq list --reason too_large\n  fanmail dlq list --json | jq -r .message\n" +
			"  fanmail dlq redrive 17 18\n  fanmail dlq drop --all --reason message_not_found",
	}
	l := letters{process: p, out: newOutput(p, cmd, "print each dead letter as one line of JSON; redrive and drop: print how many as JSON")}
	const all, reason = "all", "reason"
	cmd.Flags().StringVar(&l.reason, reason, "", "only those with this reason, such as too_large")
	cmd.Flags().BoolVar(&l.all, all, false, "redrive and drop: all dead letters, instead of ids")
	changing := func(name string, ch change) action {
		return action{name: name, flags: []string{all, reason}, args: l.check, do: func(ctx context.Context, c *client.Client, args []string) error {
			return l.change(ctx, c, args, ch)
		}}
	}
	return withActions(
		p, app.Rehydrator, cmd,
		action{name: "list", args: program.Exactly(), flags: []string{reason}, do: l.list},
		action{name: "show", args: program.Exactly("ID"), do: l.show},
		changing("redrive", change{did: "redriven", do: (*client.Client).Redrive}),
		changing("drop", change{did: "dropped", do: (*client.Client).Drop}),
	)
}

// letters are the dead letters that the flags of a command select.
type letters struct {
	process program.Process
	out     *output
	all     bool
	reason  string
}

// each calls do with each selected letter, oldest first.
func (l *letters) each(ctx context.Context, c *client.Client, do func(client.DeadLetter) error) error {
	for letter, err := range c.DeadLetters(ctx) {
		if err != nil {
			return err
		}
		if l.reason == "" || l.reason == letter.Reason {
			if err := do(letter); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *letters) list(ctx context.Context, c *client.Client, _ []string) error {
	none := true
	const row = "%-6v %-19s  %-18s %-36s  %s\n"
	err := l.each(ctx, c, func(letter client.DeadLetter) error {
		if none && !l.out.json {
			if err := printf(l.out.w, row, "ID", "AT", "REASON", "ABOUT", "ERROR"); err != nil {
				return err
			}
		}
		none = false
		return l.out.sayf(letter, row, letter.ID, showTime(letter.At.Time), letter.Reason, about(letter), program.Printable(letter.Error))
	})
	if err == nil && none && !l.out.json {
		err = printf(l.out.w, "there are no dead letters\n")
	}
	return err
}

func (l *letters) show(ctx context.Context, c *client.Client, args []string) error {
	ids, err := parseLetterIDs(args)
	if err != nil {
		return err
	}
	letter, err := c.DeadLetter(ctx, ids[0])
	switch {
	case err != nil:
		return err
	case letter == nil:
		return fmt.Errorf("there is no dead letter %d: it may have been redriven or dropped", ids[0])
	}
	return l.out.print(letter, func(w io.Writer) error { return printLetter(w, *letter) })
}

func printLetter(w io.Writer, l client.DeadLetter) error {
	payload := program.Printable(l.Payload)
	if l.PayloadBytes != nil {
		payload = fmt.Sprintf("%q", l.PayloadBytes)
	}
	if l.Cut > 0 {
		payload = fmt.Sprintf("%s (a part of %s bytes)", payload, count(l.Cut))
	}
	return printf(w, "id        %d\nat        %s\nabout     %s\nreason    %s\nerror     %s\nattempts  %s\nsubject   %s\npayload   %s\n",
		l.ID, showTime(l.At.Time), about(l), program.Printable(l.Reason), program.Printable(l.Error), count(l.Attempts), program.Printable(l.Subject), payload)
}

// about returns the subject of a dead letter in words: its message, its login, its user, or at least its subject on the bus.
func about(l client.DeadLetter) string {
	switch {
	case l.Message != nil:
		return fmt.Sprintf("%s from %s", l.Message, program.Printable(string(l.From)))
	case l.User != "" && l.Reason == event.ReasonDamaged:
		return "messages for " + program.Printable(string(l.User))
	case l.User != "":
		return "login of " + program.Printable(string(l.User))
	default:
		return program.Printable(l.Subject)
	}
}

// change is an operation on dead letters.
type change struct {
	did string
	do  func(c *client.Client, ctx context.Context, id uint64) error
}

// check returns a usage error for ids beside --all, or for none without it.
func (l *letters) check(_ *cobra.Command, args []string) error {
	switch {
	case l.all && len(args) > 0:
		return program.Usagef("--all means every dead letter: leave the ids out")
	case !l.all && len(args) == 0:
		return program.Usagef("ID is missing: give ids that 'fanmail dlq list' shows, or --all")
	case !l.all && l.reason != "":
		return program.Usagef("--reason chooses among --all: leave it out where there are ids")
	}
	return nil
}

func (l *letters) change(ctx context.Context, c *client.Client, args []string, ch change) error {
	ids, err := parseLetterIDs(args)
	if err == nil && l.all {
		// List all letters first. A task that fails again becomes a new letter at the end, so a single pass would never end.
		err = l.each(ctx, c, func(letter client.DeadLetter) error {
			ids = append(ids, letter.ID)
			return nil
		})
	}
	if err != nil {
		return err
	}
	if err := ch.each(ctx, l.process, c, ids); err != nil {
		return err
	}
	return l.out.sayf(map[string]int{ch.did: len(ids)}, "%s %s\n", plural(len(ids), "dead letter is", "dead letters are"), ch.did)
}

func (ch change) each(ctx context.Context, p program.Process, c *client.Client, ids []uint64) error {
	bar := newProgress(p, ch.did+" dead letters", int64(len(ids)))
	defer bar.close()
	var refused []error
	for i, id := range ids {
		err := ch.do(c, ctx, id)
		p, isProblem := errors.AsType[*client.Problem](err)
		switch {
		case isProblem && (p.Type == client.ProblemConflict || p.Type == client.ProblemGivenUp) && len(ids) > 1: // the others may be accepted
			refused = append(refused, fmt.Errorf("dead letter %d: %w", id, err))
		case err != nil:
			return errors.Join(append(refused, fmt.Errorf("dead letter %d: %w (%d of %d were %s before it)", id, err, i-len(refused), len(ids), ch.did))...)
		}
		bar.set(int64(i + 1))
	}
	if len(refused) > 0 {
		return fmt.Errorf("%d of %d were %s: %w", len(ids)-len(refused), len(ids), ch.did, errors.Join(refused...))
	}
	return nil
}

func parseLetterIDs(args []string) ([]uint64, error) {
	ids := make([]uint64, len(args))
	for i, arg := range args {
		id, err := strconv.ParseUint(arg, 10, 64)
		if err != nil {
			return nil, program.Usagef("%q is not the id of a dead letter: give a number that 'fanmail dlq list' shows", arg)
		}
		ids[i] = id
	}
	return ids, nil
}

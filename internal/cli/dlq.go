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
		Use:   "dlq",
		Short: "List dead letters, send them again, or drop them",
		Long: "List dead letters, send them again, or drop them. A dead letter is a task or an event that could not succeed. It\n" +
			"has the reason, the error, the number of attempts and the payload. The server keeps it until you redrive or drop\n" +
			"it, or until its message has expired for all users; no other work waits for it. Correct the cause before you\n" +
			"redrive. A message with the reason from_future is published under a new id. The reason damaged stands for all\n" +
			"messages that a user missed because of a damaged record: redriving delivers them, and is refused while the record\n" +
			"is damaged.",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return program.Usagef("say what to do: list, show, redrive or drop")
			}
			return unknownCommand(cmd, args[0])
		},
	}
	cmd.AddCommand(newDLQList(p), newDLQShow(p), newDLQRedrive(p), newDLQDrop(p))
	return cmd
}

func newDLQList(p program.Process) *cobra.Command {
	var s server
	var chosen letters
	out := output{w: p.Stdout}
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List dead letters, oldest first",
		Example: "  fanmail dlq list --reason too_large\n  fanmail dlq list --json | jq -r .message",
		Args:    program.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := s.dial(p)
			if err != nil {
				return err
			}
			defer c.Close()
			n := 0
			for letter, err := range c.DeadLetters(cmd.Context()) {
				if err != nil {
					return err
				}
				if !chosen.match(letter) {
					continue
				}
				n++
				if err := out.print(letter, func(w io.Writer) error {
					return printf(w, "%-6d %s  %-18s %s  %s\n", letter.ID, showTime(letter.At.Time), letter.Reason, about(letter), program.Printable(letter.Error))
				}); err != nil {
					return err
				}
			}
			if n == 0 && !out.json {
				return printf(out.w, "there are no dead letters\n")
			}
			return nil
		},
	}
	s.addServer(cmd, app.Rehydrator)
	chosen.addReason(cmd)
	out.addJSON(cmd, "print each dead letter as one line of JSON")
	return cmd
}

func newDLQShow(p program.Process) *cobra.Command {
	var s server
	out := output{w: p.Stdout}
	cmd := &cobra.Command{
		Use:     "show ID",
		Short:   "Show a whole dead letter",
		Example: "  fanmail dlq show 17",
		Args:    program.Exactly("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ids, err := parseLetterIDs(args)
			if err != nil {
				return err
			}
			c, err := s.dial(p)
			if err != nil {
				return err
			}
			defer c.Close()
			letter, err := c.DeadLetter(cmd.Context(), ids[0])
			switch {
			case err != nil:
				return err
			case letter == nil:
				return fmt.Errorf("there is no dead letter %d: it may have been redriven or dropped", ids[0])
			}
			return out.print(letter, func(w io.Writer) error { return printLetter(w, *letter) })
		},
	}
	s.addServer(cmd, app.Rehydrator)
	out.addJSON(cmd, "print the dead letter as JSON")
	return cmd
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

func newDLQRedrive(p program.Process) *cobra.Command {
	return newDLQChange(p, change{
		use: "redrive", did: "redriven", do: (*client.Client).Redrive,
		short: "Send dead letters to their queues again",
		long: "Send dead letters to their queues again, after you have corrected the cause. A task that fails again becomes\n" +
			"another dead letter. You can repeat the command: no inbox gets a message twice.",
		json: "print how many were redriven as JSON",
	})
}

func newDLQDrop(p program.Process) *cobra.Command {
	return newDLQChange(p, change{
		use: "drop", did: "dropped", do: (*client.Client).Drop,
		short: "Drop dead letters permanently",
		long: "Drop dead letters permanently. Fan-out does not deliver to the recipients of a dropped task. Its message counts\n" +
			"as finished then, below format level 3 it stays unfinished. The server logs each dropped letter.",
		json: "print how many were dropped as JSON",
	})
}

// change is an operation on dead letters.
type change struct {
	use, did, short, long, json string
	do                          func(c *client.Client, ctx context.Context, id uint64) error
}

func newDLQChange(p program.Process, ch change) *cobra.Command {
	var s server
	var chosen letters
	out := output{w: p.Stdout}
	cmd := &cobra.Command{
		Use:     ch.use + " ID...",
		Short:   ch.short,
		Long:    ch.long,
		Example: fmt.Sprintf("  fanmail dlq %[1]s 17 18\n  fanmail dlq %[1]s --all --reason message_not_found", ch.use),
		RunE: func(cmd *cobra.Command, args []string) error {
			ids, err := parseLetterIDs(args)
			if err != nil {
				return err
			}
			if err := chosen.check(len(ids)); err != nil {
				return program.Usage(err)
			}
			c, err := s.dial(p)
			if err != nil {
				return err
			}
			defer c.Close()
			if chosen.all {
				// List all letters first. A task that fails again becomes a new letter at the end, so a single pass would never
				// end.
				if ids, err = chosen.list(cmd.Context(), c); err != nil {
					return err
				}
			}
			return ch.run(cmd.Context(), p, out, c, ids)
		},
	}
	s.addServer(cmd, app.Rehydrator)
	chosen.addReason(cmd)
	cmd.Flags().BoolVar(&chosen.all, "all", false, "all dead letters, instead of ids")
	out.addJSON(cmd, ch.json)
	return cmd
}

func (ch change) run(ctx context.Context, p program.Process, out output, c *client.Client, ids []uint64) error {
	if err := ch.each(ctx, p, c, ids); err != nil {
		return err
	}
	return out.print(map[string]int{ch.did: len(ids)}, func(w io.Writer) error {
		return printf(w, "%s %s\n", plural(len(ids), "dead letter is", "dead letters are"), ch.did)
	})
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

// letters selects dead letters.
type letters struct {
	all    bool
	reason string
}

func (l *letters) addReason(cmd *cobra.Command) {
	cmd.Flags().StringVar(&l.reason, "reason", "", "only those with this reason, such as too_large")
}

func (l *letters) match(letter client.DeadLetter) bool {
	return l.reason == "" || l.reason == letter.Reason
}

func (l *letters) check(ids int) error {
	switch {
	case l.all && ids > 0:
		return errors.New("--all means every dead letter: leave the ids out")
	case !l.all && ids == 0:
		return errors.New("ID is missing: give ids that 'fanmail dlq list' shows, or --all")
	case !l.all && l.reason != "":
		return errors.New("--reason chooses among --all: leave it out where there are ids")
	}
	return nil
}

func (l *letters) list(ctx context.Context, c *client.Client) ([]uint64, error) {
	var ids []uint64
	for letter, err := range c.DeadLetters(ctx) {
		if err != nil {
			return nil, err
		}
		if l.match(letter) {
			ids = append(ids, letter.ID)
		}
	}
	return ids, nil
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

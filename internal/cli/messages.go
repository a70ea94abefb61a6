package cli

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/fanmail/fanmail/internal/app"
	"github.com/fanmail/fanmail/internal/cli/program"
	"github.com/fanmail/fanmail/pkg/client"
)

func newMessages(p program.Process) *cobra.Command {
	var query client.MessagesQuery
	all := false
	cmd := &cobra.Command{
		Use:   "messages",
		Short: "List messages that are under way, or that are done",
		Long: "List messages that are under way, oldest first, so that the slowest comes first: their age, and what they wait for if\n" +
			"they do not move. With --state done, list those that are done, newest first. With --state dead, list those of which\n" +
			"a part is a dead letter (fanmail dlq); they are not among those under way.\n\n" +
			"A token with the scope publish lists the messages of its senders: give --from. The server looks at a part of all\n" +
			"messages only, so a page may be short or empty although there are more: --all looks at everything.",
		Example: "  fanmail messages\n  fanmail messages --state done --from ann --limit 10\n" +
			"  fanmail messages --state dead --all --json | jq -r .id",
		Args: program.Exactly(),
	}
	out := newOutput(p, cmd, "print the page as JSON; with --all, a line of JSON for each message")
	cmd.Flags().StringVar((*string)(&query.State), "state", "", "print only messages in this `state`: pending, running, done or dead (default pending and running)")
	cmd.Flags().StringVar((*string)(&query.From), "from", "", "print only messages of this author")
	cmd.Flags().IntVar(&query.Limit, "limit", 50, "maximum number of messages to print")
	cmd.Flags().StringVar((*string)(&query.After), "after", "", "cursor of the page to print, from the page before")
	cmd.Flags().BoolVar(&all, "all", false, "print all messages")
	return onServer(p, app.Publisher, cmd, func(ctx context.Context, c *client.Client, _ []string) error {
		if all && (cmd.Flags().Changed("limit") || cmd.Flags().Changed("after")) {
			return program.Usagef("--all prints everything: give it without --limit and --after")
		}
		if query.Limit < 1 {
			return program.Usagef("--limit is %d: give 1 or more", query.Limit)
		}
		if all {
			query.Limit = 0 // the server chooses the page size
		}
		for rows := (&table{w: out.w}); ; {
			page, err := c.Messages(ctx, query)
			switch {
			case err != nil:
				return err
			case !all:
				return out.print(page, func(io.Writer) error { return printMessagePage(p, rows, query, page) })
			case out.json:
				for _, m := range page.Messages {
					err = errors.Join(err, out.line(m))
				}
			default:
				err = printMessageRows(p, rows, page.Messages)
			}
			if err != nil || page.Next == "" {
				return err
			}
			query.After = page.Next
		}
	})
}

func printMessagePage(p program.Process, rows *table, query client.MessagesQuery, page client.MessagePage) error {
	if len(page.Messages) == 0 && page.Next == "" {
		return printf(rows.w, "there are no such messages\n")
	}
	if err := printMessageRows(p, rows, page.Messages); err != nil || page.Next == "" {
		return err
	}
	flags := ""
	if query.State != "" {
		flags += " --state " + string(query.State)
	}
	if query.From != "" {
		flags += " --from " + shellWord(string(query.From))
	}
	return printf(rows.w, "more: fanmail messages%s --after %s\n", flags, page.Next)
}

// printMessageRows prints a line for each message, below a header if the table has none.
func printMessageRows(p program.Process, to *table, messages []client.MessageProgress) error {
	var rows [][]string
	if to.widths == nil {
		rows = append(rows, []string{"ID", "FROM", "SENT", "STATE", "LANE", "RECIPIENTS", "DELIVERED", "SKIPPED", "WAITS FOR"})
	}
	for _, m := range messages {
		rows = append(rows, []string{
			m.ID.String(), fit(program.Printable(string(m.From)), maxFromColumns), age(p.Now().Sub(m.Sent.Time)), string(m.State), string(m.Lane),
			count(m.Recipients), count(m.Delivered), count(m.Skipped), string(m.WaitingFor),
		})
	}
	return to.print(rows)
}

package cli

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/rivo/uniseg"
	"github.com/spf13/cobra"

	"github.com/fanmail/fanmail/internal/app"
	"github.com/fanmail/fanmail/internal/cli/program"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

// maxFromColumns is the maximum width of the column with the authors.
const maxFromColumns = 24

// inboxCommand prints an inbox.
type inboxCommand struct {
	process program.Process
	output  *output
	options client.InboxOptions
	all     bool
	asUser  bool
	follow  bool
	stored  bool
	countBy string
}

func newInbox(p program.Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "inbox USER",
		Short: "Print the inbox of a user, newest first",
		Long: "Print the inbox of a user, newest first: the time at which each message was sent (UTC), its author, and the\n" +
			"first line of its body.\n\n" +
			"Looking changes nothing, and fails for a user who was never seen. With --as-user, it is a visit of the user: it\n" +
			"keeps the user active. If the user was dormant or never seen, the server starts to rebuild the inbox, which is\n" +
			"loading until the rebuild is complete.\n\n" +
			"With --attr, --from and --unread, print only the messages for which all of these conditions hold, at most four. A\n" +
			"condition on a declared attribute (fanmail attribute) is NAME:OP:VALUE, where OP is eq, ne, lt, lte, gt, gte, in\n" +
			"(values separated by commas) or exists (true or false). The server looks at a part of a large inbox only, so a\n" +
			"page may be empty although there are older messages: --all looks at everything.\n\n" +
			"With --count-by, print instead how many of the newest 1,000 messages, and how many unread ones, each author has\n" +
			"(from), or each value of a declared attribute (attr:NAME).\n\n" +
			"With --follow, print the newest messages, oldest first, and then each message as it arrives, until an interrupt or\n" +
			"SIGTERM. A deletion and another change of the counts have a line of their own. The command connects again when the\n" +
			"connection is lost, and misses nothing.\n\n" +
			"With --stored, print instead what the server holds: what is recorded of the user, and the newest 200 buckets of the\n" +
			"inbox. It is never a visit.",
		Example: "  fanmail inbox ben --limit 10\n  fanmail inbox ben --all --json | jq -r .id\n" +
			"  fanmail inbox ben --since 2026-01-01T00:00:00Z --until 2026-02-01T00:00:00Z\n" +
			"  fanmail inbox ben --unread --from ann --attr total:gte:64 --attr type:in:invoice,reminder --all\n" +
			"  fanmail inbox ben --count-by attr:type\n" +
			"  fanmail inbox ben --follow --json | jq -r '.messages[]?.body'\n" +
			"  fanmail inbox ben --stored",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 && len(suggest(cmd, args[0])) > 0 {
				return unknownCommand(cmd, args[0])
			}
			return program.Exactly("USER")(cmd, args)
		},
	}
	i := inboxCommand{process: p, output: newOutput(p, cmd, "print the page or the number as JSON; with --all, a line of JSON for each message, with --follow for each change")}
	cmd.Flags().IntVar(&i.options.Limit, "limit", 50, "maximum number of messages to print")
	cmd.Flags().StringVar((*string)(&i.options.Before), "before", "", "cursor of the page to print, from the page before")
	timeFlag(cmd, "since", &i.options.Since, "print only messages that were sent at this `time` or later, such as 2026-01-02T15:04:05Z")
	timeFlag(cmd, "until", &i.options.Until, "print only messages that were sent before this `time`")
	cmd.Flags().BoolVar(&i.asUser, "as-user", false, "count this as a visit of the user")
	cmd.Flags().StringArrayVar(&i.options.Attrs, "attr", nil, "print only messages whose attribute meets this `condition`, NAME:OP:VALUE; may be repeated")
	cmd.Flags().StringVar((*string)(&i.options.From), "from", "", "print only messages of this author")
	cmd.Flags().BoolVar(&i.options.Unread, "unread", false, "print only unread messages")
	cmd.Flags().BoolVar(&i.all, "all", false, "print all messages")
	cmd.Flags().BoolVar(&i.follow, "follow", false, "print messages as they arrive")
	cmd.Flags().BoolVar(&i.stored, "stored", false, "print the inbox as it is stored")
	cmd.Flags().StringVar(&i.countBy, "count-by", "", "print counts by `what`: from, or attr:NAME")
	cmd.Flags().Var(&archived{&i.options.Archived}, "archived", "print no archived messages (false), only these (true), or all")
	cmd.AddCommand(newInboxMark(p), newInboxPurge(p))
	return onServer(p, app.Rehydrator, cmd, func(ctx context.Context, c *client.Client, args []string) error {
		return i.run(ctx, cmd, c, args[0])
	})
}

// timeFlag defines a flag with a time.
func timeFlag(cmd *cobra.Command, name string, at *time.Time, usage string) {
	cmd.Flags().Func(name, usage, func(text string) (err error) {
		*at, err = message.ParseTime(text)
		return err
	})
}

// archived is the value of --archived.
type archived struct{ to *client.Archived }

// String implements pflag.Value.
func (a *archived) String() string {
	if a.to == nil || *a.to == "" {
		return string(client.ArchivedOut)
	}
	return string(*a.to)
}

// Set implements pflag.Value.
func (a *archived) Set(text string) error {
	switch v := client.Archived(text); v {
	case client.ArchivedOut, client.ArchivedOnly, client.ArchivedToo:
		*a.to = v
		return nil
	}
	return errors.New("give false, true or all")
}

// Type implements pflag.Value.
func (*archived) Type() string { return "which" }

func (i *inboxCommand) run(ctx context.Context, cmd *cobra.Command, c *client.Client, name string) error {
	user, err := parseUser(name)
	if err != nil {
		return err
	}
	if i.all && (cmd.Flags().Changed("limit") || cmd.Flags().Changed("before")) {
		return program.Usagef("--all prints everything: give it without --limit and --before")
	}
	if i.options.Limit < 1 {
		return program.Usagef("--limit is %d: give 1 or more", i.options.Limit)
	}
	if err := i.checkAlone(cmd); err != nil {
		return err
	}
	i.options.Peek = !i.asUser
	switch {
	case i.stored:
		return i.printStored(ctx, c, user)
	case i.follow:
		return i.printFollowed(ctx, c, user)
	case i.countBy != "":
		return i.printCounts(ctx, c, user)
	case i.all:
		return i.printAll(ctx, c, user)
	default:
		return i.printPage(ctx, c, user)
	}
}

// checkAlone returns an error if a flag for printing something else is given with flags for printing messages, or has another form.
func (i *inboxCommand) checkAlone(cmd *cobra.Command) error {
	for _, alone := range []struct{ flag, prints, with string }{
		{"count-by", "no messages", ""},
		{"follow", "the newest messages and all that arrive", "as-user"},
		{"stored", "no messages", "before"},
	} {
		for _, name := range []string{
			"all", "archived", "as-user", "attr", "before", "count-by", "follow", "from", "limit", "since", "stored", "unread", "until",
		} {
			if cmd.Flags().Changed(alone.flag) && cmd.Flags().Changed(name) && name != alone.flag && name != alone.with {
				return program.Usagef("--%s prints %s: give it without --%s", alone.flag, alone.prints, name)
			}
		}
	}
	if name, isAttr := strings.CutPrefix(i.countBy, attrPrefix); cmd.Flags().Changed("count-by") && i.countBy != "from" && (!isAttr || name == "") {
		return program.Usagef("--count-by is %q: give from, or attr:NAME with the name of a declared attribute", i.countBy)
	}
	return nil
}

func (i *inboxCommand) printPage(ctx context.Context, c *client.Client, user message.UserID) error {
	page, err := c.Inbox(ctx, user, i.options)
	if err != nil {
		return err
	}
	return i.output.print(page, func(w io.Writer) error {
		if err := i.printTotals(w, user, page); err != nil {
			return err
		}
		if err := printRows(w, i.process.Width(w), page.Messages); err != nil || page.Next == "" {
			return err
		}
		return printf(w, "older: fanmail inbox %s%s --before %s\n", program.Printable(string(user)), i.bounds(), page.Next)
	})
}

// bounds returns the flags that say which messages are printed.
func (i *inboxCommand) bounds() string {
	var flags strings.Builder
	if t := i.options.Since; !t.IsZero() {
		flags.WriteString(" --since " + t.Format(time.RFC3339Nano))
	}
	if t := i.options.Until; !t.IsZero() {
		flags.WriteString(" --until " + t.Format(time.RFC3339Nano))
	}
	if i.options.From != "" {
		flags.WriteString(" --from " + shellWord(string(i.options.From)))
	}
	if i.options.Unread {
		flags.WriteString(" --unread")
	}
	if i.options.Archived != "" {
		flags.WriteString(" --archived " + string(i.options.Archived))
	}
	for _, condition := range i.options.Attrs {
		flags.WriteString(" --attr " + shellWord(condition))
	}
	return flags.String()
}

// shellWord returns a text as one word for a shell.
func shellWord(text string) string {
	return "'" + strings.ReplaceAll(program.Printable(text), "'", `'\''`) + "'"
}

func (i *inboxCommand) printAll(ctx context.Context, c *client.Client, user message.UserID) error {
	opts := i.options
	opts.Limit = 0 // the server chooses the page size
	for first := true; ; first = false {
		page, err := c.Inbox(ctx, user, opts)
		if err != nil {
			return err
		}
		if first && !i.output.json {
			if err := i.printTotals(i.output.w, user, page); err != nil {
				return err
			}
		}
		if err := i.printMessages(page.Messages); err != nil || page.Next == "" {
			return err
		}
		opts.Before = page.Next
	}
}

func (i *inboxCommand) printTotals(w io.Writer, user message.UserID, page client.InboxPage) error {
	note := ""
	switch {
	case page.Complete:
	case i.asUser:
		note = ", still loading"
	default:
		note = ", dormant or still loading"
	}
	if page.Archived > 0 {
		note = ", " + count(page.Archived) + " archived" + note
	}
	return printf(w, "%s: %s, %s unread%s\n", program.Printable(string(user)), plural(page.Total, "message", "messages"), count(page.Unread), note)
}

func (i *inboxCommand) printMessages(messages []client.InboxMessage) error {
	if !i.output.json {
		return printRows(i.output.w, i.process.Width(i.output.w), messages)
	}
	for _, m := range messages {
		if err := i.output.line(m); err != nil {
			return err
		}
	}
	return nil
}

// printRows prints one line for each message, cut to width columns; 0 means no limit.
func printRows(w io.Writer, width int, messages []client.InboxMessage) error {
	from := 0
	for _, m := range messages {
		from = max(from, min(maxFromColumns, uniseg.StringWidth(program.Printable(string(m.From)))))
	}
	for _, m := range messages {
		row := showTime(m.Sent.Time) + "  " + pad(fit(program.Printable(string(m.From)), from), from) + "  " + program.Printable(firstLine(m.Body))
		if err := printf(w, "%s\n", fit(row, width)); err != nil {
			return err
		}
	}
	return nil
}

func showTime(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") }

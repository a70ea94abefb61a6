package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fanmail/fanmail/internal/app"
	"github.com/fanmail/fanmail/internal/cli/program"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

// inboxMark marks messages of an inbox.
type inboxMark struct {
	output  *output
	options client.InboxOptions
	all     bool
	// on has the flags that say what becomes of the messages.
	on struct{ read, unread, archive, unarchive bool }
}

func newInboxMark(p program.Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "mark USER [ID ...]",
		Short: "Mark messages as read or unread, or archive them",
		Long: "Mark messages in the inbox of a user as read or unread, archive them, or take them back from the archive, and print\n" +
			"how many have changed. Archived messages leave pages and counts. Archiving does not mark as read.\n\n" +
			"Name the messages by their ids, or by --from and --attr, as for 'fanmail inbox', or give --all. It is no visit of the\n" +
			"user. You can repeat the command.",
		Example: "  fanmail inbox mark ben 019b7ca9-8c89-7000-8000-000000000001 --read\n" +
			"  fanmail inbox mark ben --all --read\n  fanmail inbox mark ben --from ann --archive",
		Args: func(cmd *cobra.Command, args []string) error {
			return program.Exactly("USER")(cmd, args[:min(1, len(args))])
		},
	}
	m := inboxMark{output: newOutput(p, cmd, "print the numbers as JSON"), options: client.InboxOptions{Limit: client.MaxMarks, Peek: true}}
	cmd.Flags().BoolVar(&m.on.read, "read", false, "mark them as read")
	cmd.Flags().BoolVar(&m.on.unread, "unread", false, "mark them as unread")
	cmd.Flags().BoolVar(&m.on.archive, "archive", false, "archive them")
	cmd.Flags().BoolVar(&m.on.unarchive, "unarchive", false, "take them back from the archive")
	cmd.Flags().StringVar((*string)(&m.options.From), "from", "", "messages of this author")
	cmd.Flags().StringArrayVar(&m.options.Attrs, "attr", nil, "messages whose attribute meets this `condition`, NAME:OP:VALUE; may be repeated")
	cmd.Flags().BoolVar(&m.all, "all", false, "all messages")
	return onServer(p, app.Rehydrator, cmd, m.run)
}

func (m *inboxMark) run(ctx context.Context, c *client.Client, args []string) error {
	user, err := parseUser(args[0])
	if err != nil {
		return err
	}
	marks, err := m.marks()
	if err != nil {
		return err
	}
	chosen := m.options.From != "" || len(m.options.Attrs) > 0
	switch given := len(args) > 1; {
	case given && (m.all || chosen) || m.all && chosen:
		return program.Usagef("give ids, conditions (--from, --attr) or --all, and only one of these")
	case given:
		for _, text := range args[1:] {
			id, err := message.ParseID(text)
			if err != nil {
				return program.Usagef("%q is not the id of a message: 'fanmail inbox %s --json' prints ids", text, program.Printable(args[0]))
			}
			marks.IDs = append(marks.IDs, id)
		}
	case m.all || chosen:
		if m.on.unarchive {
			m.options.Archived = client.ArchivedOnly
		}
		for found, err := range c.InboxAll(ctx, user, m.options) { // all first: marks move messages from page to page
			if err != nil {
				return err
			}
			marks.IDs = append(marks.IDs, found.ID)
		}
	default:
		return program.Usagef("no message is named: give ids, --from, --attr or --all")
	}
	return m.mark(ctx, c, user, marks)
}

// marks returns what becomes of the messages.
func (m *inboxMark) marks() (marks client.MessageMarks, err error) {
	on := m.on
	switch {
	case on.read && on.unread, on.archive && on.unarchive:
		return marks, program.Usagef("give only one of --read and --unread, and only one of --archive and --unarchive")
	case on.read || on.unread:
		marks.Read = &on.read
	case !on.archive && !on.unarchive:
		return marks, program.Usagef("what becomes of the messages? Give --read, --unread, --archive or --unarchive")
	}
	if on.archive || on.unarchive {
		marks.Archived = &on.archive
	}
	return marks, nil
}

// mark marks messages. Those that are not in the inbox make it fail when all others are marked.
func (m *inboxMark) mark(ctx context.Context, c *client.Client, user message.UserID, marks client.MessageMarks) error {
	sum := client.Marked{Missing: []message.ID{}}
	for ids := range slices.Chunk(marks.IDs, client.MaxMarks) {
		marks.IDs = ids
		marked, err := c.Mark(ctx, user, marks)
		if err != nil {
			return err
		}
		sum.Changed += marked.Changed
		sum.Missing = append(sum.Missing, marked.Missing...)
	}
	err := m.output.sayf(sum, "%s: %s changed\n", program.Printable(string(user)), plural(int64(sum.Changed), "message", "messages"))
	if err != nil || len(sum.Missing) == 0 {
		return err
	}
	missing := make([]string, len(sum.Missing))
	for i, id := range sum.Missing {
		missing[i] = id.String()
	}
	return fmt.Errorf("not in the inbox, or not any more: %s", strings.Join(missing, ", "))
}

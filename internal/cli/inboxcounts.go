package cli

import (
	"context"
	"encoding/json"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fanmail/fanmail/internal/cli/program"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

// attrPrefix is how --count-by begins if it names an attribute.
const attrPrefix = "attr:"

// checkCount returns an error if --count-by is given with flags for printing messages, or has another form.
func (i *inboxCommand) checkCount(cmd *cobra.Command) error {
	if !cmd.Flags().Changed("count-by") {
		return nil
	}
	for _, name := range []string{"all", "archived", "as-user", "attr", "before", "dry-run", "from", "limit", "purge-until", "since", "unread", "until"} {
		if cmd.Flags().Changed(name) {
			return program.Usagef("--count-by prints no messages: give it without --%s", name)
		}
	}
	if name, isAttr := strings.CutPrefix(i.countBy, attrPrefix); i.countBy != "from" && (!isAttr || name == "") {
		return program.Usagef("--count-by is %q: give from, or attr:NAME with the name of a declared attribute", i.countBy)
	}
	return nil
}

func (i *inboxCommand) printCounts(ctx context.Context, c *client.Client, user message.UserID) error {
	var counts client.ValueCounts
	var err error
	if name, isAttr := strings.CutPrefix(i.countBy, attrPrefix); isAttr {
		counts, err = c.CountByAttribute(ctx, user, name)
	} else {
		counts, err = c.CountByAuthor(ctx, user)
	}
	if err != nil {
		return err
	}
	return i.output.print(counts, func(w io.Writer) error {
		note := ""
		if !counts.Complete {
			note = "; there may be more"
		}
		if err := printf(w, "%s: %s counted%s\n", program.Printable(string(user)), plural(int64(counts.Counted), "message", "messages"), note); err != nil {
			return err
		}
		for _, c := range counts.Counts {
			text, err := valueText(c.Value)
			if err != nil {
				return err
			}
			row := padLeft(count(c.Total)) + "  " + padLeft(count(c.Unread)) + " unread  " + program.Printable(text)
			if err := printf(w, "%s\n", fit(row, i.process.Width(w))); err != nil {
				return err
			}
		}
		return nil
	})
}

// padLeft fills a number of at most 1,000 from the left.
func padLeft(s string) string { return strings.Repeat(" ", max(0, len("1,000")-len(s))) + s }

// valueText returns a value as a text: strings as they are, others as JSON.
func valueText(value any) (string, error) {
	switch v := value.(type) {
	case nil:
		return "(none)", nil
	case string:
		return v, nil
	}
	text, err := json.Marshal(value)
	return string(text), err
}

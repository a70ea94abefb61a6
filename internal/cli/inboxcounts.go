package cli

import (
	"context"
	"encoding/json"
	"io"
	"strings"

	"github.com/fanmail/fanmail/internal/cli/program"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

// attrPrefix is how --count-by begins if it names an attribute.
const attrPrefix = "attr:"

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

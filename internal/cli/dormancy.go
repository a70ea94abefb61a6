package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/fanmail/fanmail/internal/app"
	"github.com/fanmail/fanmail/internal/cli/program"
	"github.com/fanmail/fanmail/pkg/client"
)

func newDormancy(p program.Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dormancy",
		Short: "Show what dormancy saves, and what another dormant_after would",
		Long: "Show how many copies were not made for users who are away, how many were made when they came back, and what would\n" +
			"have been with other values of dormant_after: how many copies would have been made when messages were sent, and how\n" +
			"many inboxes would have been rebuilt. A higher value makes more copies and rebuilds fewer inboxes.\n" +
			"'fanmail admin settings dormant_after' changes it.",
		Args: program.Exactly(),
	}
	out := newOutput(p, cmd, "print the numbers as JSON")
	return onServer(p, app.Rehydrator, cmd, func(ctx context.Context, c *client.Client, _ []string) error {
		d, err := c.Dormancy(ctx)
		if err != nil {
			return err
		}
		return out.print(d, func(w io.Writer) error { return printDormancy(w, d) })
	})
}

func printDormancy(w io.Writer, d client.Dormancy) error {
	users := "not counted until a round through all users has ended"
	if d.Users != nil {
		users = fmt.Sprintf("about %s active, %s dormant", count(d.Users.Active), count(d.Users.Dormant))
	}
	if err := printf(w, "users    %s\nskipped  %s for dormant users, %s for users never seen, %s because of a block\nrebuilt  %s, with %s\n\n",
		users, count(d.Skipped.Dormant), count(d.Skipped.NeverSeen), count(d.Skipped.Blocked),
		plural(d.Rebuilt.Users, "inbox", "inboxes"), plural(d.Rebuilt.Messages, "message", "messages")); err != nil {
		return err
	}
	rows := [][]string{{"dormant_after", "copies", "rebuilds"}}
	for _, other := range d.If {
		rows = append(rows, []string{other.DormantAfter, count(other.Copies), count(other.Rebuilds)})
	}
	if err := (&table{w: w}).print(append(rows, nil)); err != nil {
		return err
	}
	skipped := d.Skipped.Dormant + d.Skipped.NeverSeen
	return printf(w, "Dormancy has saved about %s: %s (%s bytes) were skipped, and %s made later.\n",
		plural(max(0, skipped-d.Rebuilt.Messages), "copy", "copies"), count(skipped), count(d.Skipped.Bytes), count(d.Rebuilt.Messages))
}

package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/fanmail/fanmail/internal/app"
	"github.com/fanmail/fanmail/internal/cli/program"
	"github.com/fanmail/fanmail/pkg/client"
)

func newInboxPurge(p program.Process) *cobra.Command {
	var purge client.Purge
	cmd := &cobra.Command{
		Use:   "purge USER",
		Short: "Let all messages up to a time expire",
		Long: "Let all messages in the inbox of a user expire that were sent at --until or before, permanently, and print how many. It\n" +
			"is no visit of the user. You can repeat it.",
		Example: "  fanmail inbox purge ben --until 2026-01-01T00:00:00Z --dry-run",
		Args:    program.Exactly("USER"),
	}
	out := newOutput(p, cmd, "print the number as JSON")
	timeFlag(cmd, "until", &purge.Until.Time, "let messages expire that were sent at this `time` or before, such as 2026-01-02T15:04:05Z")
	cmd.Flags().BoolVar(&purge.DryRun, "dry-run", false, "only print how many messages would expire")
	return onServer(p, app.Rehydrator, cmd, func(ctx context.Context, c *client.Client, args []string) error {
		user, err := parseUser(args[0])
		if err != nil {
			return err
		}
		if purge.Until.IsZero() {
			return program.Usagef("up to which time? Give --until")
		}
		n, err := c.Purge(ctx, user, purge)
		if err != nil {
			return err
		}
		happened := "expired"
		if purge.DryRun {
			happened = "would expire"
		}
		return out.sayf(client.Purged{Purged: n}, "%s: %s %s\n", program.Printable(string(user)), plural(n, "message", "messages"), happened)
	})
}

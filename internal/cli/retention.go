package cli

import (
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/fanmail/fanmail/internal/app"
	"github.com/fanmail/fanmail/internal/cli/program"
	"github.com/fanmail/fanmail/pkg/client"
)

func newRetention(p program.Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "retention",
		Short: "Show how far messages in inboxes have expired",
		Long: "Show up to where all messages have expired for all users, and by how much the oldest one may be overdue.\n" +
			"'fanmail admin settings retention.max_age' sets when messages expire.",
		Args: program.Exactly(),
	}
	out := newOutput(p, cmd, "print the status as JSON")
	return onServer(p, app.Rehydrator, cmd, func(ctx context.Context, c *client.Client, _ []string) error {
		status, err := c.RetentionStatus(ctx)
		if err != nil {
			return err
		}
		return out.print(status, func(w io.Writer) error {
			if status.AsOf == nil {
				return printf(w, "nothing expires by age yet: a reading of the store's clock has to stand for retention.hold first\n")
			}
			if status.LowWater == nil {
				return printf(w, "no round through all users has shown yet that their messages expire\n")
			}
			return printf(w, "everything has expired up to %s (%s), as of %s, and the oldest message is overdue by at most %s\n",
				status.LowWater.Time().UTC().Format(time.RFC3339), status.LowWater, status.AsOf.UTC().Format(time.RFC3339), *status.OldestOverdue)
		})
	})
}

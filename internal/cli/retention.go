package cli

import (
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/fanmail/fanmail/internal/app"
	"github.com/fanmail/fanmail/internal/cli/program"
)

func newRetention(p program.Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "retention",
		Short: "Show how far messages in inboxes have expired",
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return program.Usagef("say what to do: status")
			}
			return unknownCommand(cmd, args[0])
		},
	}
	cmd.AddCommand(newRetentionStatus(p))
	return cmd
}

func newRetentionStatus(p program.Process) *cobra.Command {
	var s server
	out := output{w: p.Stdout}
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show how far messages in inboxes have expired",
		Long: "Show up to where all messages have expired for all users, by how much the oldest one may be overdue, how many\n" +
			"expire in a second, and how many bytes were freed. 'fanmail admin settings retention.max_age' sets when messages\n" +
			"expire.",
		Example: "  fanmail retention status",
		Args:    program.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := s.dial(p)
			if err != nil {
				return err
			}
			defer c.Close()
			status, err := c.RetentionStatus(cmd.Context())
			if err != nil {
				return err
			}
			return out.print(status, func(w io.Writer) error {
				if status.LowWater == nil {
					err = printf(w, "no round through all users has shown yet that their messages expire\n")
				} else {
					err = printf(w, "everything has expired up to %s (%s), and the oldest message is overdue by at most %s\n",
						status.LowWater.Time().UTC().Format(time.RFC3339), status.LowWater, *status.OldestOverdue)
				}
				if err != nil {
					return err
				}
				return printf(w, "%.1f messages a second expire, and %d bytes were freed\n", status.Rate, status.BytesFreed)
			})
		},
	}
	s.addServer(cmd, app.Rehydrator)
	out.addJSON(cmd, "print the status as JSON")
	return cmd
}

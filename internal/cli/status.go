package cli

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/fanmail/fanmail/internal/app"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

func newStatus(p Process) *cobra.Command {
	var s server
	out := output{w: p.Stdout}
	wait := false
	cmd := &cobra.Command{
		Use:   "status ID",
		Short: "Tell how far a message is on its way",
		Long: "Tell how far a message is on its way. Its state is pending, running or done. Delivered counts the recipients who\n" +
			"have it in their inbox, skipped those who are dormant; when it is done, both are final.",
		Example: "  fanmail status 01981e6c-5f6a-7c43-9f0e-0d5c2b7f3a10 --wait",
		Args:    exactly("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := message.ParseID(args[0])
			if err != nil {
				return &usageError{err}
			}
			c, err := s.dial(p)
			if err != nil {
				return err
			}
			defer c.Close()
			status, err := statusOf(cmd.Context(), p, c, id, wait)
			if err != nil {
				return err
			}
			return out.print(status, func(w io.Writer) error { return printStatus(w, status) })
		},
	}
	s.addServer(cmd, app.Publisher)
	out.addJSON(cmd, "print the message and its status as JSON")
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until it is done")
	return cmd
}

func statusOf(ctx context.Context, p Process, c *client.Client, id message.ID, wait bool) (client.Status, error) {
	if wait {
		return waitShowing(ctx, p, c, id)
	}
	return c.Status(ctx, id)
}

func printStatus(w io.Writer, s client.Status) error {
	return printf(w, "message     %s\nfrom        %s\nsent        %s\nstate       %s\nrecipients  %s\ndelivered   %s\nskipped     %s\n",
		s.ID, printable(string(s.From)), showTime(s.Sent.Time), s.Fanout.State,
		count(s.Fanout.Recipients), count(s.Fanout.Delivered), count(s.Fanout.Skipped))
}

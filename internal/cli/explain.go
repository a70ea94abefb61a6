package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/fanmail/fanmail/internal/app"
	"github.com/fanmail/fanmail/internal/cli/program"
	"github.com/fanmail/fanmail/pkg/client"
)

func newExplain(p program.Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain USER ID",
		Short: "Explain why a user has, or does not have, a message",
		Long: "Explain in one sentence why a user has, does not have, or will get a message. The server reads the stored\n" +
			"message, the edges of the user, the progress of the fan-out, and the inbox. It changes nothing. It also explains\n" +
			"unknown users and messages.",
		Example: "  fanmail explain ben 01981e6c-5f6a-7c43-9f0e-0d5c2b7f3a10\n" +
			"  fanmail explain ben 01981e6c-5f6a-7c43-9f0e-0d5c2b7f3a10 --json | jq .verdict",
		Args: program.Exactly("USER", "ID"),
	}
	out := newOutput(p, cmd, "print the verdict and the facts behind it as JSON")
	return onServer(p, app.Rehydrator, cmd, func(ctx context.Context, c *client.Client, args []string) error {
		user, err := parseUser(args[0])
		if err != nil {
			return err
		}
		id, err := parseMessageID(args[1])
		if err != nil {
			return err
		}
		explained, err := c.Explain(ctx, user, id)
		if err != nil {
			return err
		}
		return out.sayf(explained, "%s: %s\n", explained.Verdict, program.Printable(explained.Sentence))
	})
}

package cli

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/fanmail/fanmail/internal/app"
	"github.com/fanmail/fanmail/internal/cli/program"
	"github.com/fanmail/fanmail/pkg/message"
)

func newExplain(p program.Process) *cobra.Command {
	var s server
	out := output{w: p.Stdout}
	cmd := &cobra.Command{
		Use:   "explain USER ID",
		Short: "Explain why a user has, or does not have, a message",
		Long: "Explain in one sentence why a user has, does not have, or will get a message. The server reads the stored\n" +
			"message, the edges of the user, the progress of the fan-out, and the inbox. It changes nothing. It also explains\n" +
			"unknown users and messages.",
		Example: "  fanmail explain ben 01981e6c-5f6a-7c43-9f0e-0d5c2b7f3a10\n" +
			"  fanmail explain ben 01981e6c-5f6a-7c43-9f0e-0d5c2b7f3a10 --json | jq .verdict",
		Args: program.Exactly("USER", "ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			user := message.UserID(args[0])
			if err := user.Validate("user"); err != nil {
				return program.Usage(err)
			}
			id, err := message.ParseID(args[1])
			if err != nil {
				return program.Usage(err)
			}
			c, err := s.dial(p)
			if err != nil {
				return err
			}
			defer c.Close()
			explained, err := c.Explain(cmd.Context(), user, id)
			if err != nil {
				return err
			}
			return out.print(explained, func(w io.Writer) error {
				return printf(w, "%s: %s\n", explained.Verdict, program.Printable(explained.Sentence))
			})
		},
	}
	s.addServer(cmd, app.Rehydrator)
	out.addJSON(cmd, "print the verdict and the facts behind it as JSON")
	return cmd
}

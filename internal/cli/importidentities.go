package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/fanmail/fanmail/internal/app"
	"github.com/fanmail/fanmail/internal/cli/program"
	"github.com/fanmail/fanmail/pkg/client"
)

func newImportIdentities(p program.Process) *cobra.Command {
	i := importer[client.IdentityLine]{
		process: p, role: app.Publisher, one: "identity", many: "identities", parse: parseIdentityLine, requests: 1,
		send: func(ctx context.Context, c *client.Client, lines []client.IdentityLine) (client.BatchResult, error) {
			return c.SetIdentityBatch(ctx, lines)
		},
	}
	cmd := &cobra.Command{
		Use:   "identities FILE",
		Short: "Import other names of users, such as mail addresses",
		Long: "Import identities, other names of users, from FILE, or from standard input if FILE is -.\n\n" +
			"Each line has a JSON object with the fields kind, value and user. Blank lines and lines that begin with # are\n" +
			"ignored. The file may be compressed with gzip. The command reads the whole file first: if a line is bad, it sends\n" +
			"nothing. The server knows the kinds and the forms of values, and rejects an identity that belongs to another\n" +
			"user: of two lines with the same identity, the first counts. Identities that exist stay unchanged, so you can\n" +
			"repeat an import.",
		Example: "  fanmail import identities identities.ndjson.gz\n" +
			"  echo '{\"kind\":\"email\",\"value\":\"joe@example.com\",\"user\":\"joe\"}' | fanmail import identities -",
		Args: program.Exactly("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error { return i.run(cmd.Context(), args[0]) },
	}
	i.addFlags(cmd)
	return cmd
}

// parseIdentityLine parses a line of the batch. Its errors do not repeat the value.
func parseIdentityLine(text []byte) (client.IdentityLine, error) {
	var l client.IdentityLine
	if err := decode(text, &l); err != nil {
		return l, err
	}
	switch {
	case l.Kind == "":
		return l, errors.New("kind is empty: give one such as email")
	case l.Value == "":
		return l, errors.New("value is empty")
	}
	return l, l.User.Validate("user")
}

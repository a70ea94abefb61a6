package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/fanmail/fanmail/internal/app"
	"github.com/fanmail/fanmail/internal/cli/program"
	"github.com/fanmail/fanmail/pkg/client"
)

func newImportUsers(p program.Process) *cobra.Command {
	i := importer[client.Seen]{
		process: p, role: app.Rehydrator, one: "user", many: "users", parse: parseSeen, requests: 1,
		send: func(ctx context.Context, c *client.Client, seen []client.Seen) (client.BatchResult, error) {
			return c.SetSeenBatch(ctx, seen)
		},
	}
	cmd := &cobra.Command{
		Use:   "users FILE",
		Short: "Import when users were last seen",
		Long: "Import when users were last seen from FILE, or from standard input if FILE is -.\n\n" +
			"Each line has a JSON object with the fields user and last_viewed. Blank lines and lines that begin with # are\n" +
			"ignored. The file may be compressed with gzip. The command reads the whole file first: if a line is bad, it\n" +
			"sends nothing. The server rejects a time in the future, and a time before the one that it knows. It imports the\n" +
			"other lines.\n\n" +
			"The server rebuilds the inboxes of dormant and new users before the command continues. If no messages were\n" +
			"published yet, this takes almost no time. The server rejects a user whose rebuild takes too long; repeat the\n" +
			"command then.",
		Example: "  fanmail import users users.ndjson\n" +
			"  echo '{\"user\":\"ann\",\"last_viewed\":\"2026-01-02T15:04:05Z\"}' | fanmail import users -",
		Args: program.Exactly("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error { return i.run(cmd.Context(), args[0]) },
	}
	i.addFlags(cmd)
	return cmd
}

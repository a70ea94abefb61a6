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
			"Each line holds a JSON object with the fields user and last_viewed; blank lines and lines that begin with # are\n" +
			"passed over. The file may be compressed with gzip. It is read to its end before anything is sent: with a bad\n" +
			"line, nothing is. The server rejects a time before the one it knows, and one in the future; the others are\n" +
			"imported all the same.\n\n" +
			"Users who are dormant, or new, may have been sent messages already: their inboxes are rebuilt before the command\n" +
			"goes on, which takes hardly any time where nothing has been published yet. One that takes too long is rejected,\n" +
			"too, and the command can be repeated.",
		Example: "  fanmail import users users.ndjson\n" +
			"  echo '{\"user\":\"ann\",\"last_viewed\":\"2026-01-02T15:04:05Z\"}' | fanmail import users -",
		Args: program.Exactly("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error { return i.run(cmd.Context(), args[0]) },
	}
	i.addFlags(cmd)
	return cmd
}

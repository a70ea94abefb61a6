package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/fanmail/fanmail/internal/app"
	"github.com/fanmail/fanmail/internal/cli/program"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/follow"
)

func newImportFollows(p program.Process) *cobra.Command {
	i := importer[follow.Pair]{
		process: p, role: app.Publisher, one: "edge", many: "edges", parse: parsePair, requests: 4,
		send: func(ctx context.Context, c *client.Client, pairs []follow.Pair) (client.BatchResult, error) {
			return c.FollowBatch(ctx, pairs)
		},
	}
	cmd := &cobra.Command{
		Use:   "follows FILE",
		Short: "Import who follows whom",
		Long: "Import who follows whom from FILE, or from standard input if FILE is -.\n\n" +
			"Each line holds a follower, a tab and a followee; blank lines and lines that begin with # are passed over. The\n" +
			"file may be compressed with gzip. It is read to its end before anything is sent: with a bad line, nothing is.\n" +
			"An edge that is there already stays as it is, so repeating an import does no harm.",
		Example: "  fanmail import follows edges.tsv.gz\n  printf 'ben\\tann\\n' | fanmail import follows -",
		Args:    program.Exactly("FILE"),
		RunE:    func(cmd *cobra.Command, args []string) error { return i.run(cmd.Context(), args[0]) },
	}
	i.addFlags(cmd)
	return cmd
}

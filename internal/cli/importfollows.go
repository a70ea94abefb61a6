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
		process: p, role: app.Publisher, one: "edge", many: "edges", parse: parsePair, header: pairHeader, requests: 4,
		send: func(ctx context.Context, c *client.Client, pairs []follow.Pair) (client.BatchResult, error) {
			return c.FollowBatch(ctx, pairs)
		},
	}
	cmd := &cobra.Command{
		Use:   "follows FILE",
		Short: "Import who follows whom",
		Long: "Import who follows whom from FILE, or from standard input if FILE is -.\n\n" +
			"Each line has a follower, a tab and a followee. Blank lines and lines that begin with # are ignored. So is a first\n" +
			"line that is exactly the words follower, tab, followee, and the command says so. The file may be compressed with\n" +
			"gzip. The command reads the whole file first: if a line is bad, it sends nothing. Edges that exist stay unchanged,\n" +
			"so you can repeat an import.",
		Example: "  fanmail import follows edges.tsv.gz\n  printf 'ben\\tann\\n' | fanmail import follows -",
		Args:    program.Exactly("FILE"),
		RunE:    func(cmd *cobra.Command, args []string) error { return i.run(cmd.Context(), args[0]) },
	}
	i.addFlags(cmd)
	return cmd
}

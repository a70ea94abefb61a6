package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/fanmail/fanmail/internal/app"
	"github.com/fanmail/fanmail/internal/cli/program"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

func newImportTopics(p program.Process) *cobra.Command {
	i := importer[message.Topic]{
		process: p, role: app.Publisher, one: "topic", many: "topics", parse: parseTopicLine, requests: 1,
		send: func(ctx context.Context, c *client.Client, all []message.Topic) (client.BatchResult, error) {
			return c.CreateTopicBatch(ctx, all)
		},
	}
	cmd := &cobra.Command{
		Use:   "topics FILE",
		Short: "Import topics",
		Long: "Import topics from FILE, or from standard input if FILE is -.\n\n" +
			"Each line has a JSON object with the field topic. Blank lines and lines that begin with # are ignored. The file may\n" +
			"be compressed with gzip. The command reads the whole file first: if a line is bad, it sends nothing. The server\n" +
			"creates topics in the order of the lines, and rejects one if the topic above it does not exist. Topics that exist\n" +
			"stay unchanged, so you can repeat an import.",
		Example: "  fanmail import topics topics.ndjson\n  echo '{\"topic\":\"programming/go\"}' | fanmail import topics -",
		Args:    program.Exactly("FILE"),
		RunE:    func(cmd *cobra.Command, args []string) error { return i.run(cmd.Context(), args[0]) },
	}
	i.addFlags(cmd)
	return cmd
}

func parseTopicLine(text []byte) (message.Topic, error) {
	var l client.Topic
	if err := decode(text, &l); err != nil {
		return "", err
	}
	return l.Topic, l.Topic.Validate("topic")
}

func newImportSubscriptions(p program.Process) *cobra.Command {
	i := importer[client.Subscription]{
		process: p, role: app.Publisher, one: "subscription", many: "subscriptions", parse: parseSubscription, requests: 4,
		send: func(ctx context.Context, c *client.Client, all []client.Subscription) (client.BatchResult, error) {
			return c.SubscribeBatch(ctx, all)
		},
	}
	cmd := &cobra.Command{
		Use:   "subscriptions FILE",
		Short: "Import who is subscribed to which topics",
		Long: "Import subscriptions to topics from FILE, or from standard input if FILE is -.\n\n" +
			"Each line has a JSON object with the fields user and topic. Blank lines and lines that begin with # are ignored. The\n" +
			"file may be compressed with gzip. The command reads the whole file first: if a line is bad, it sends nothing. The\n" +
			"server rejects a topic that does not exist. Subscriptions that exist stay unchanged, so you can repeat an import.",
		Example: "  fanmail import subscriptions subscriptions.ndjson.gz\n" +
			"  echo '{\"user\":\"ben\",\"topic\":\"programming/go\"}' | fanmail import subscriptions -",
		Args: program.Exactly("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error { return i.run(cmd.Context(), args[0]) },
	}
	i.addFlags(cmd)
	return cmd
}

func parseSubscription(text []byte) (client.Subscription, error) {
	var l client.Subscription
	if err := decode(text, &l); err != nil {
		return l, err
	}
	if err := l.User.Validate("user"); err != nil {
		return l, err
	}
	return l, l.Topic.Validate("topic")
}

package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/fanmail/fanmail/internal/app"
	"github.com/fanmail/fanmail/internal/cli/program"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

func newSubscribe(p program.Process) *cobra.Command {
	return newSubscription(p, (*client.Client).Subscribe, &cobra.Command{
		Use:   "subscribe USER TOPIC",
		Short: "Subscribe a user to a topic",
		Long: "Subscribe a user to a topic, from now on. The user gets the messages to the topic and to all topics below it. You can\n" +
			"repeat it.",
		Example: "  fanmail subscribe ben programming/go",
	})
}

func newUnsubscribe(p program.Process) *cobra.Command {
	return newSubscription(p, (*client.Client).Unsubscribe, &cobra.Command{
		Use:     "unsubscribe USER TOPIC",
		Short:   "End a user's subscription to a topic",
		Long:    "End a user's subscription to a topic, if there is one. You can repeat it.",
		Example: "  fanmail unsubscribe ben programming/go",
	})
}

// newSubscription completes a command that calls do with a user and a topic.
func newSubscription(
	p program.Process, do func(*client.Client, context.Context, message.UserID, message.Topic) error, cmd *cobra.Command,
) *cobra.Command {
	var s server
	cmd.Args = program.Exactly("USER", "TOPIC")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		user, err := parseUser(args[0])
		if err != nil {
			return err
		}
		return onTopic(cmd, p, s, args[1], func(ctx context.Context, c *client.Client, t message.Topic) error {
			return do(c, ctx, user, t)
		})
	}
	s.addServer(cmd, app.Publisher)
	return cmd
}

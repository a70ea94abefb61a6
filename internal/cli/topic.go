package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/fanmail/fanmail/internal/app"
	"github.com/fanmail/fanmail/internal/cli/program"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

// topicPageSize is how many topics one request lists.
const topicPageSize = 200

func newTopic(p program.Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "topic ACTION [TOPIC]",
		Short: "Create, list or delete topics",
		Long: "Create, list or delete topics. A topic is a path of 1 to 8 segments, such as programming/go. A user who is subscribed\n" +
			"to a topic gets the messages to it and to all topics below it.\n\n" +
			"  create TOPIC  The topic above it must exist, or --parents creates that, too.\n" +
			"  list [TOPIC]  List a topic and all topics below it, or all topics if none is given. With --user, list the topics\n" +
			"                to which the user is subscribed.\n" +
			"  delete TOPIC  The server refuses it while there are topics below the topic, or users are subscribed to it.\n\n" +
			"You can repeat each of them.",
		Example: "  fanmail topic create programming/go --parents\n  fanmail topic list programming\n  fanmail topic list --user ben",
	}
	out := newOutput(p, cmd, "list: print each topic as JSON, as 'fanmail import topics' reads it")
	parents := cmd.Flags().Bool("parents", false, "create: create the topics above it, too")
	user := cmd.Flags().String("user", "", "list: list the topics to which this user is subscribed")
	return withActions(
		p, app.Publisher, cmd,
		action{name: "create", args: program.Exactly("TOPIC"), flags: []string{"parents"}, do: func(ctx context.Context, c *client.Client, args []string) error {
			t, err := parseTopic(args[0])
			if err != nil {
				return err
			}
			return c.CreateTopic(ctx, t, *parents)
		}},
		action{name: "list", args: program.AtMost("TOPIC"), flags: []string{jsonFlag, "user"}, do: func(ctx context.Context, c *client.Client, args []string) error {
			list, err := topicLister(c, args, *user, cmd.Flags().Changed("user"))
			if err != nil {
				return err
			}
			for after, headed := client.Cursor(""), out.json; ; {
				page, err := list(ctx, after)
				if err != nil {
					return err
				}
				if !headed && len(page.Topics) > 0 {
					headed = true
					if err := printf(out.w, "TOPIC\n"); err != nil {
						return err
					}
				}
				for _, t := range page.Topics {
					err := out.sayf(client.Topic{Topic: t}, "%s\n", program.Printable(string(t)))
					if err != nil {
						return err
					}
				}
				if after = page.Next; after == "" {
					return nil
				}
			}
		}},
		action{name: "delete", args: program.Exactly("TOPIC"), do: func(ctx context.Context, c *client.Client, args []string) error {
			t, err := parseTopic(args[0])
			if err != nil {
				return err
			}
			return c.DeleteTopic(ctx, t)
		}},
	)
}

// parseTopic returns the topic of an argument.
func parseTopic(path string) (message.Topic, error) {
	t := message.Topic(path)
	if err := t.Validate("topic"); err != nil {
		return "", program.Usage(err)
	}
	return t, nil
}

// topicLister returns what asks for a page of the list: of the topics of a user, or of those at and below a topic.
func topicLister(
	c *client.Client, args []string, name string, ofUser bool,
) (func(context.Context, client.Cursor) (client.TopicPage, error), error) {
	if ofUser && len(args) > 0 {
		return nil, program.Usagef("--user lists all topics of the user: leave out %s", args[0])
	}
	if ofUser {
		user, err := parseUser(name)
		return func(ctx context.Context, after client.Cursor) (client.TopicPage, error) {
			return c.UserTopics(ctx, user, after, topicPageSize)
		}, err
	}
	var under message.Topic
	if len(args) > 0 {
		var err error
		if under, err = parseTopic(args[0]); err != nil {
			return nil, err
		}
	}
	return func(ctx context.Context, after client.Cursor) (client.TopicPage, error) {
		return c.Topics(ctx, under, after, topicPageSize)
	}, nil
}

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
	cmd.Args = program.Exactly("USER", "TOPIC")
	return onServer(p, app.Publisher, cmd, func(ctx context.Context, c *client.Client, args []string) error {
		user, err := parseUser(args[0])
		if err != nil {
			return err
		}
		topic, err := parseTopic(args[1])
		if err != nil {
			return err
		}
		return do(c, ctx, user, topic)
	})
}

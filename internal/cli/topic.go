package cli

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/fanmail/fanmail/internal/app"
	"github.com/fanmail/fanmail/internal/cli/program"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

func newTopic(p program.Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "topic",
		Short: "Create, list or delete topics",
		Long: "Create, list or delete topics. A topic is a path of 1 to 8 segments, such as programming/go. A user who is subscribed\n" +
			"to a topic gets the messages to it and to all topics below it. This needs format level 4 (fanmail admin upgrade).",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return program.Usagef("say what to do: create, list or delete")
			}
			return unknownCommand(cmd, args[0])
		},
	}
	cmd.AddCommand(newTopicCreate(p), newTopicList(p), newTopicDelete(p))
	return cmd
}

// parseTopic returns the topic of an argument.
func parseTopic(path string) (message.Topic, error) {
	t := message.ParseTopic(path)
	if err := t.Validate("topic"); err != nil {
		return "", program.Usage(err)
	}
	return t, nil
}

func newTopicCreate(p program.Process) *cobra.Command {
	var s server
	var parents bool
	cmd := &cobra.Command{
		Use:     "create TOPIC",
		Short:   "Create a topic",
		Long:    "Create a topic. The topic above it must exist, or --parents creates that, too. You can repeat it.",
		Example: "  fanmail topic create programming/go --parents",
		Args:    program.Exactly("TOPIC"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return onTopic(cmd, p, s, args[0], func(ctx context.Context, c *client.Client, t message.Topic) error {
				return c.CreateTopic(ctx, t, parents)
			})
		},
	}
	s.addServer(cmd, app.Publisher)
	cmd.Flags().BoolVar(&parents, "parents", false, "create the topics above it, too")
	return cmd
}

func newTopicDelete(p program.Process) *cobra.Command {
	var s server
	cmd := &cobra.Command{
		Use:   "delete TOPIC",
		Short: "Delete a topic",
		Long: "Delete a topic. The server refuses that while there are topics below it, or users are subscribed to it. You can\n" +
			"repeat it.",
		Example: "  fanmail topic delete programming/go",
		Args:    program.Exactly("TOPIC"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return onTopic(cmd, p, s, args[0], func(ctx context.Context, c *client.Client, t message.Topic) error {
				return c.DeleteTopic(ctx, t)
			})
		},
	}
	s.addServer(cmd, app.Publisher)
	return cmd
}

func newTopicList(p program.Process) *cobra.Command {
	var s server
	var user string
	out := output{w: p.Stdout}
	cmd := &cobra.Command{
		Use:   "list [TOPIC]",
		Short: "List topics",
		Long: "List a topic and all topics below it, or all topics if none is given. With --user, list the topics to which the\n" +
			"user is subscribed.",
		Example: "  fanmail topic list programming\n  fanmail topic list --user ben",
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			list, err := topicLister(cmd, args, user)
			if err != nil {
				return err
			}
			c, err := s.dial(p)
			if err != nil {
				return err
			}
			defer c.Close()
			for after := client.Cursor(""); ; {
				page, err := list(cmd.Context(), c, after)
				if err != nil {
					return err
				}
				for _, t := range page.Topics {
					err := out.print(client.Topic{Topic: t}, func(w io.Writer) error {
						return printf(w, "%s\n", program.Printable(t.String()))
					})
					if err != nil {
						return err
					}
				}
				if after = page.Next; after == "" {
					return nil
				}
			}
		},
	}
	s.addServer(cmd, app.Publisher)
	out.addJSON(cmd, "print each topic as JSON, as 'fanmail import topics' reads it")
	cmd.Flags().StringVar(&user, "user", "", "list the topics to which this user is subscribed")
	return cmd
}

// topicPageSize is how many topics one request lists.
const topicPageSize = 200

// topicLister returns what asks for a page of the list that the arguments name.
func topicLister(
	cmd *cobra.Command, args []string, name string,
) (func(context.Context, *client.Client, client.Cursor) (client.TopicPage, error), error) {
	var under message.Topic
	if len(args) > 1 {
		return nil, program.Usagef("unexpected argument %q", args[1])
	}
	if len(args) == 1 {
		var err error
		if under, err = parseTopic(args[0]); err != nil {
			return nil, err
		}
	}
	if !cmd.Flags().Changed("user") {
		return func(ctx context.Context, c *client.Client, after client.Cursor) (client.TopicPage, error) {
			return c.Topics(ctx, under, after, topicPageSize)
		}, nil
	}
	if under != "" {
		return nil, program.Usagef("--user lists all topics of the user: leave out %s", args[0])
	}
	user, err := parseUser(name)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, c *client.Client, after client.Cursor) (client.TopicPage, error) {
		return c.UserTopics(ctx, user, after, topicPageSize)
	}, nil
}

// onTopic calls do with a client and the topic of an argument.
func onTopic(
	cmd *cobra.Command, p program.Process, s server, path string, do func(context.Context, *client.Client, message.Topic) error,
) error {
	t, err := parseTopic(path)
	if err != nil {
		return err
	}
	c, err := s.dial(p)
	if err != nil {
		return err
	}
	defer c.Close()
	return do(cmd.Context(), c, t)
}

package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fanmail/fanmail/internal/app"
	"github.com/fanmail/fanmail/internal/cli/program"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
)

func newFollow(p program.Process) *cobra.Command {
	return newFollowing(p, (*client.Client).Follow, &cobra.Command{
		Use:     "follow USER FOLLOWEE...",
		Short:   "Make a user follow others",
		Long:    "Make a user follow others, from now on. The user gets the messages that they publish to their followers. You can repeat\nit.",
		Example: "  fanmail follow ben ann eve",
	})
}

func newUnfollow(p program.Process) *cobra.Command {
	return newFollowing(p, (*client.Client).Unfollow, &cobra.Command{
		Use:     "unfollow USER FOLLOWEE...",
		Short:   "Make a user follow others no longer",
		Long:    "Make a user follow others no longer. The inbox keeps what it has. You can repeat it.",
		Example: "  fanmail unfollow ben ann",
	})
}

// newFollowing completes a command that calls do with a user and each of the others.
func newFollowing(
	p program.Process, do func(*client.Client, context.Context, message.UserID, message.UserID) error, cmd *cobra.Command,
) *cobra.Command {
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		return program.Exactly("USER", "FOLLOWEE")(cmd, args[:min(len(args), 2)])
	}
	return onServer(p, app.Publisher, cmd, func(ctx context.Context, c *client.Client, args []string) error {
		user := message.UserID(args[0])
		for _, name := range args[1:] { // all of them before the first request
			followee, err := parseUser(name)
			if err == nil {
				err = (follow.Pair{Follower: user, Followee: followee.Source()}).Validate()
			}
			if err != nil {
				return program.Usage(err)
			}
		}
		for i, name := range args[1:] {
			if err := do(c, ctx, user, message.UserID(name)); err != nil {
				return fmt.Errorf("%s: %w (%d of %d were done before)", name, err, i, len(args)-1)
			}
		}
		return nil
	})
}

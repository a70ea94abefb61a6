package cli

import (
	"context"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fanmail/fanmail/internal/app"
	"github.com/fanmail/fanmail/internal/cli/program"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

func newIdentity(p program.Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "identity ACTION IDENTITY|USER [USER]",
		Short: "Set, find, remove or list other names of users, such as mail addresses",
		Long: "Set, find, remove or list identities: other names of users, such as mail addresses. Each belongs to one user, and a\n" +
			"user has at most 20. Write an identity as its kind, a colon and its value, such as email:joe@example.com.\n\n" +
			"  set IDENTITY USER  Give a user an identity, which no other user may have.\n" +
			"  get IDENTITY       Print the user who has an identity.\n" +
			"  delete IDENTITY    Take an identity away from the user who has it, or with --user only if that user has it.\n" +
			"  list USER          List the identities of a user.\n\n" +
			"You can repeat each of them.",
		Example: "  fanmail identity set email:joe@example.com joe\n" +
			"  fanmail identity get email:joe@example.com\n" +
			"  fanmail identity delete phone:+14155552671 --user joe\n" +
			"  fanmail identity list joe",
	}
	out := newOutput(p, cmd, "get and list: print the answer as JSON")
	owner := cmd.Flags().String("user", "", "delete: leave the identity alone unless this user has it")
	return withActions(
		p, app.Publisher, cmd,
		action{name: "set", args: program.Exactly("IDENTITY", "USER"), do: func(ctx context.Context, c *client.Client, args []string) error {
			id, err := parseIdentity(args[0])
			if err != nil {
				return err
			}
			user, err := parseUser(args[1])
			if err != nil {
				return err
			}
			return c.SetIdentity(ctx, id, user)
		}},
		action{name: "get", args: program.Exactly("IDENTITY"), flags: []string{jsonFlag}, do: func(ctx context.Context, c *client.Client, args []string) error {
			id, err := parseIdentity(args[0])
			if err != nil {
				return err
			}
			user, err := c.Identity(ctx, id)
			if err != nil {
				return err
			}
			return out.sayf(client.IdentityUser{User: user}, "%s\n", program.Printable(string(user)))
		}},
		action{name: "delete", args: program.Exactly("IDENTITY"), flags: []string{"user"}, do: func(ctx context.Context, c *client.Client, args []string) error {
			id, err := parseIdentity(args[0])
			if err != nil {
				return err
			}
			var of message.UserID
			if cmd.Flags().Changed("user") {
				if of, err = parseUser(*owner); err != nil {
					return err
				}
			}
			return c.DeleteIdentity(ctx, id, of)
		}},
		action{name: "list", args: program.Exactly("USER"), flags: []string{jsonFlag}, do: func(ctx context.Context, c *client.Client, args []string) error {
			user, err := parseUser(args[0])
			if err != nil {
				return err
			}
			list, err := c.Identities(ctx, user)
			if err != nil {
				return err
			}
			return out.print(client.Identities{Identities: list}, func(w io.Writer) error {
				return tableOf(w, []string{"IDENTITY"}, list, func(id message.Identity) []string { return []string{id.Kind + ":" + id.Value} })
			})
		}},
	)
}

// parseIdentity parses an argument such as email:joe@example.com. The server knows the kinds and the forms of values.
func parseIdentity(text string) (message.Identity, error) {
	kind, value, found := strings.Cut(text, ":")
	if !found || kind == "" || value == "" {
		return message.Identity{}, program.Usagef("an identity is written as its kind, a colon and its value, such as email:joe@example.com")
	}
	return message.Identity{Kind: kind, Value: value}, nil
}

func parseUser(text string) (message.UserID, error) {
	user := message.UserID(text)
	if err := user.Validate("user"); err != nil {
		return "", program.Usage(err)
	}
	return user, nil
}

func parseMessageID(text string) (message.ID, error) {
	id, err := message.ParseID(text)
	if err != nil {
		return id, program.Usage(err)
	}
	return id, nil
}

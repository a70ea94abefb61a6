package cli

import (
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
		Use:   "identity",
		Short: "Set, find, remove or list other names of users, such as mail addresses",
		Long: "Set, find, remove or list identities: other names of users, such as mail addresses. Each belongs to one user, and a\n" +
			"user has at most 20. Write an identity as its kind, a colon and its value, such as email:joe@example.com. This\n" +
			"needs format level 4 (fanmail admin upgrade).",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return program.Usagef("say what to do: set, get, delete or list")
			}
			return unknownCommand(cmd, args[0])
		},
	}
	cmd.AddCommand(newIdentitySet(p), newIdentityGet(p), newIdentityDelete(p), newIdentityList(p))
	return cmd
}

func newIdentitySet(p program.Process) *cobra.Command {
	var s server
	cmd := &cobra.Command{
		Use:   "set IDENTITY USER",
		Short: "Give a user an identity",
		Long:  "Give a user an identity, which no other user may have. You can repeat it.",
		Example: "  fanmail identity set email:joe@example.com joe\n" +
			"  fanmail identity set phone:+14155552671 joe",
		Args: program.Exactly("IDENTITY", "USER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := parseIdentity(args[0])
			if err != nil {
				return err
			}
			user, err := parseUser(args[1])
			if err != nil {
				return err
			}
			c, err := s.dial(p)
			if err != nil {
				return err
			}
			defer c.Close()
			return c.SetIdentity(cmd.Context(), id, user)
		},
	}
	s.addServer(cmd, app.Publisher)
	return cmd
}

func newIdentityGet(p program.Process) *cobra.Command {
	var s server
	out := output{w: p.Stdout}
	cmd := &cobra.Command{
		Use:     "get IDENTITY",
		Short:   "Print the user who has an identity",
		Example: "  fanmail identity get email:joe@example.com",
		Args:    program.Exactly("IDENTITY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := parseIdentity(args[0])
			if err != nil {
				return err
			}
			c, err := s.dial(p)
			if err != nil {
				return err
			}
			defer c.Close()
			user, err := c.Identity(cmd.Context(), id)
			if err != nil {
				return err
			}
			return out.print(client.IdentityUser{User: user}, func(w io.Writer) error {
				return printf(w, "%s\n", program.Printable(string(user)))
			})
		},
	}
	s.addServer(cmd, app.Publisher)
	out.addJSON(cmd, "print the user as JSON")
	return cmd
}

func newIdentityDelete(p program.Process) *cobra.Command {
	var s server
	var user string
	cmd := &cobra.Command{
		Use:     "delete IDENTITY",
		Short:   "Take an identity away from the user who has it",
		Long:    "Take an identity away from the user who has it, or with --user only if that user has it. You can repeat it.",
		Example: "  fanmail identity delete email:joe@example.com --user joe",
		Args:    program.Exactly("IDENTITY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := parseIdentity(args[0])
			if err != nil {
				return err
			}
			var of message.UserID
			if cmd.Flags().Changed("user") {
				if of, err = parseUser(user); err != nil {
					return err
				}
			}
			c, err := s.dial(p)
			if err != nil {
				return err
			}
			defer c.Close()
			return c.DeleteIdentity(cmd.Context(), id, of)
		},
	}
	s.addServer(cmd, app.Publisher)
	cmd.Flags().StringVar(&user, "user", "", "leave the identity alone unless this user has it")
	return cmd
}

func newIdentityList(p program.Process) *cobra.Command {
	var s server
	out := output{w: p.Stdout}
	cmd := &cobra.Command{
		Use:     "list USER",
		Short:   "List the identities of a user",
		Example: "  fanmail identity list joe",
		Args:    program.Exactly("USER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			user, err := parseUser(args[0])
			if err != nil {
				return err
			}
			c, err := s.dial(p)
			if err != nil {
				return err
			}
			defer c.Close()
			list, err := c.Identities(cmd.Context(), user)
			if err != nil {
				return err
			}
			return out.print(client.Identities{Identities: list}, func(w io.Writer) error {
				for _, id := range list {
					if err := printf(w, "%s:%s\n", program.Printable(id.Kind), program.Printable(id.Value)); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	s.addServer(cmd, app.Publisher)
	out.addJSON(cmd, "print the list as JSON")
	return cmd
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

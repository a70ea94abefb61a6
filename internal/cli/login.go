package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/fanmail/fanmail/internal/app"
	"github.com/fanmail/fanmail/internal/cli/program"
	"github.com/fanmail/fanmail/internal/duration"
	"github.com/fanmail/fanmail/pkg/client"
)

func newLogin(p program.Process) *cobra.Command {
	wait := client.DefaultLoginWait
	cmd := &cobra.Command{
		Use:   "login USER",
		Short: "Record a login of a user, and rebuild the inbox if necessary",
		Long: "Record a login of a user. If the user was dormant or is new, the server rebuilds the inbox, and the command\n" +
			"waits until it is complete. If that takes longer than --wait, the server continues the rebuild, and the command\n" +
			"exits with code 1.",
		Example: "  fanmail login ben\n  fanmail login ben --wait 0s --json",
		Args:    program.Exactly("USER"),
	}
	out := newOutput(p, cmd, "print the answer as JSON")
	cmd.Flags().Var((*duration.Value)(&wait), "wait", "how long to wait until the inbox is complete, 0s to 60s")
	return onServer(p, app.Rehydrator, cmd, func(ctx context.Context, c *client.Client, args []string) error {
		user, err := parseUser(args[0])
		if err != nil {
			return err
		}
		if wait < 0 || wait > client.MaxLoginWait {
			return program.Usagef("--wait is %s: give 0s to %ds", wait, client.MaxLoginWait/time.Second)
		}
		login, err := c.Login(ctx, user, wait)
		if err != nil {
			return err
		}
		return reportLogin(out, login)
	})
}

// reportLogin prints the result of a login. If the inbox is still being rebuilt, it returns an error.
func reportLogin(out *output, login client.Login) error {
	user := program.Printable(string(login.User))
	if login.State != client.Rehydrating {
		return out.sayf(login, "%s\n", loginText(user, login))
	}
	if out.json {
		if err := out.line(login); err != nil {
			return err
		}
	}
	return fmt.Errorf("%s %s, and the inbox is still loading: repeat the command to wait for it, or read what is there with 'fanmail inbox %s'",
		user, wasText(login.Was), user)
}

func loginText(user string, login client.Login) string {
	if login.Was == client.WasActive {
		return user + " is active"
	}
	return user + " " + wasText(login.Was) + ": " + plural(login.Recovered, "message", "messages") + " recovered"
}

func wasText(was client.Was) string {
	if was == client.WasNew {
		return "is new"
	}
	return "was " + string(was)
}

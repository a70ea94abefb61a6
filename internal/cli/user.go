package cli

import (
	"cmp"
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/fanmail/fanmail/internal/app"
	"github.com/fanmail/fanmail/internal/cli/program"
	"github.com/fanmail/fanmail/internal/duration"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

func newUser(p program.Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "user ACTION USER",
		Short: "Show a user, and set when they were last seen and what they keep",
		Long: "Show a user, and set when they were last seen and what they keep.\n\n" +
			"  get USER        Show the state of a user, when they were last seen, and how many messages the inbox has.\n" +
			"  set USER        Record with --last-viewed when a user was last seen. The user becomes known. If the user was dormant,\n" +
			"                  the inbox is rebuilt.\n" +
			"  retention USER  Show what the user keeps. --max-age and --newest give the user a retention of their own in place of an\n" +
			"                  earlier one, and what it does not keep expires permanently. --default takes it away.\n\n" +
			"You can repeat each of them.",
		Example: "  fanmail user get ben\n  fanmail user set ben --last-viewed 2026-01-02T15:04:05Z\n" +
			"  fanmail user retention ben --max-age 30d --newest 100",
	}
	u := userCommand{cmd: cmd, out: newOutput(p, cmd, "get and retention: print the answer as JSON")}
	timeFlag(cmd, "last-viewed", &u.seen, "set: `time` at which the user was last seen, such as 2026-01-02T15:04:05Z")
	cmd.Flags().Var((*duration.Value)(&u.maxAge), "max-age", "retention: how long after they were sent messages expire, such as 30d")
	cmd.Flags().Lookup("max-age").DefValue = ""
	cmd.Flags().Int64Var(&u.keep.Newest, "newest", 0, "retention: how many messages the inbox keeps; older ones expire")
	cmd.Flags().BoolVar(&u.unset, "default", false, "retention: keep what the deployment keeps")
	return withActions(
		p, app.Rehydrator, cmd,
		action{name: "get", args: program.Exactly("USER"), flags: []string{jsonFlag}, do: u.get},
		action{name: "set", args: program.Exactly("USER"), flags: []string{"last-viewed"}, do: u.set},
		action{name: "retention", args: program.Exactly("USER"), flags: []string{jsonFlag, "max-age", "newest", "default"}, do: u.retention},
	)
}

// userCommand shows and changes a user.
type userCommand struct {
	cmd    *cobra.Command
	out    *output
	seen   time.Time
	maxAge time.Duration
	keep   client.Retention
	unset  bool
}

func (u *userCommand) get(ctx context.Context, c *client.Client, args []string) error {
	user, err := parseUser(args[0])
	if err != nil {
		return err
	}
	got, err := c.User(ctx, user)
	if err != nil {
		return err
	}
	return u.out.sayf(got, "user         %s\nstate        %s\nlast viewed  %s\nmessages     %s\n",
		program.Printable(string(user)), got.State, showTime(got.LastViewed.Time), count(got.Total))
}

func (u *userCommand) set(ctx context.Context, c *client.Client, args []string) error {
	user, err := parseUser(args[0])
	if err != nil {
		return err
	}
	if u.seen.IsZero() {
		return program.Usagef("when was the user last seen? Give --last-viewed")
	}
	return c.SetSeen(ctx, user, u.seen)
}

func (u *userCommand) retention(ctx context.Context, c *client.Client, args []string) error {
	user, err := parseUser(args[0])
	if err != nil {
		return err
	}
	aged, counted := u.cmd.Flags().Changed("max-age"), u.cmd.Flags().Changed("newest")
	switch {
	case u.unset && (aged || counted):
		return program.Usagef("--default takes the user's own retention away: give it without --max-age and --newest")
	case aged && u.maxAge <= 0:
		return program.Usagef("--max-age is %s: give more than 0s, or leave it out", duration.Text(u.maxAge))
	case counted && u.keep.Newest < 1:
		return program.Usagef("--newest is %d: give 1 or more, or leave it out", u.keep.Newest)
	case u.unset:
		err = c.DeleteRetention(ctx, user)
	case aged || counted:
		if aged {
			u.keep.MaxAge = duration.Text(u.maxAge)
		}
		err = c.SetRetention(ctx, user, u.keep)
	}
	if err != nil {
		return err
	}
	keep, err := c.Retention(ctx, user)
	if err != nil {
		return err
	}
	return u.out.print(keep, func(w io.Writer) error { return printRetention(w, user, keep) })
}

func printRetention(w io.Writer, user message.UserID, keep client.Retention) error {
	name := program.Printable(string(user))
	if keep == (client.Retention{}) {
		return printf(w, "%s keeps what the deployment keeps\n", name)
	}
	newest := "as many as the deployment keeps"
	if keep.Newest > 0 {
		newest = count(keep.Newest)
	}
	return printf(w, "user     %s\nmax age  %s\nnewest   %s\n", name, cmp.Or(keep.MaxAge, "that of the deployment"), newest)
}

package cli

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/fanmail/fanmail/internal/app"
	"github.com/fanmail/fanmail/internal/cli/program"
	"github.com/fanmail/fanmail/pkg/client"
)

func newAdminSettings(p program.Process) *cobra.Command {
	var change client.SettingChange
	cmd := &cobra.Command{
		Use:   "settings [KEY VALUE]",
		Short: "Show the settings that all processes agree on, or change one",
		Long: "Show the settings that all processes agree on, or change one. The database records them, and a process whose\n" +
			"configuration differs follows the record. All processes use a changed value within 5 s. A value is written as in\n" +
			"a configuration, such as 30d or 81KiB.\n\n" +
			"A change makes no user active or dormant: a new dormant_after holds for later views. With --dry-run, the command\n" +
			"only shows what the change would do.",
		Example: "  fanmail admin settings\n  fanmail admin settings dormant_after 60d --dry-run",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 0 && len(args) != 2 {
				return program.Usagef("give a KEY and its VALUE, or neither to show all settings")
			}
			return nil
		},
	}
	out := newOutput(p, cmd, "print the result as JSON")
	cmd.Flags().BoolVar(&change.DryRun, "dry-run", false, "show what the change would do, and change nothing")
	cmd.Flags().BoolVar(&change.Confirm, "yes", false, "confirm a change by which messages expire")
	return onServer(p, app.Rehydrator, cmd, func(ctx context.Context, c *client.Client, args []string) error {
		if len(args) == 0 {
			list, err := c.Settings(ctx)
			if err != nil {
				return err
			}
			return out.print(client.SettingList{Settings: list}, func(w io.Writer) error {
				return tableOf(w, []string{"KEY", "RECORDED", "SINCE", "CONFIGURED"}, list, func(s client.Setting) []string {
					other := ""
					if s.Configured != s.Recorded {
						other = s.Configured
					}
					return []string{s.Key, s.Recorded, showTime(s.Since.Time), other}
				})
			})
		}
		change.Value = args[1]
		effect, err := c.ChangeSetting(ctx, args[0], change)
		if err != nil {
			return err
		}
		return out.print(effect, func(w io.Writer) error { return printEffect(w, args[0], change, effect) })
	})
}

func printEffect(w io.Writer, key string, change client.SettingChange, effect client.SettingEffect) error {
	switch {
	case !effect.Changed:
		return printf(w, "%s is %s already\n", key, change.Value)
	case change.DryRun:
		return printf(w, "%s would become %s\n", key, change.Value)
	default:
		return printf(w, "%s is %s now\n", key, change.Value)
	}
}

func newAdminProcesses(p program.Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "processes",
		Short:   "List the processes that were seen within a day",
		Long:    "List the processes that were seen within a day. A process reports itself every 10 s. One that stops says so.",
		Example: "  fanmail admin processes",
		Args:    program.Exactly(),
	}
	out := newOutput(p, cmd, "print the processes as JSON")
	return onServer(p, app.Rehydrator, cmd, func(ctx context.Context, c *client.Client, _ []string) error {
		list, err := c.Processes(ctx)
		if err != nil {
			return err
		}
		return out.print(client.ProcessList{Processes: list}, func(w io.Writer) error {
			return tableOf(w, []string{"NAME", "STATE", "VERSION", "ADDRESS", "STARTED", "SEEN", "ROLES"}, list, func(p client.Process) []string {
				return []string{p.Name, p.State, p.Version, p.Address, showTime(p.Started.Time), showTime(p.Seen.Time), p.Role}
			})
		})
	})
}

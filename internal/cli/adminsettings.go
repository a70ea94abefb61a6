package cli

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/fanmail/fanmail/internal/app"
	"github.com/fanmail/fanmail/internal/cli/program"
	"github.com/fanmail/fanmail/pkg/client"
)

func newAdminSettings(p program.Process) *cobra.Command {
	var s server
	var change client.SettingChange
	out := output{w: p.Stdout}
	cmd := &cobra.Command{
		Use:   "settings [KEY VALUE]",
		Short: "Show the settings that all processes agree on, or change one",
		Long: "Show the settings that all processes agree on, or change one. The database records them, and a process whose\n" +
			"configuration differs follows the record. All processes use a changed value within 5 s. A value is written as in\n" +
			"a configuration, such as 30d or 81KiB.\n\n" +
			"A change makes no user active or dormant: a new dormant_after holds for later views. With --dry-run, the command\n" +
			"only shows what the change would do.",
		Example: "  fanmail admin settings\n  fanmail admin settings dormant_after 60d --dry-run",
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 0 && len(args) != 2 {
				return program.Usagef("give a KEY and its VALUE, or neither to show all settings")
			}
			c, err := s.dial(p)
			if err != nil {
				return err
			}
			defer c.Close()
			if len(args) == 0 {
				list, err := c.Settings(cmd.Context())
				if err != nil {
					return err
				}
				return out.print(client.SettingList{Settings: list}, func(w io.Writer) error { return printSettings(w, list) })
			}
			change.Value = args[1]
			effect, err := c.ChangeSetting(cmd.Context(), args[0], change)
			if err != nil {
				return err
			}
			return out.print(effect, func(w io.Writer) error { return printEffect(w, args[0], change, effect) })
		},
	}
	s.addServer(cmd, app.Rehydrator)
	cmd.Flags().BoolVar(&change.DryRun, "dry-run", false, "show what the change would do, and change nothing")
	cmd.Flags().BoolVar(&change.Confirm, "yes", false, "confirm a change by which messages expire")
	out.addJSON(cmd, "print the result as JSON")
	return cmd
}

func printSettings(w io.Writer, list []client.Setting) error {
	for _, s := range list {
		if err := printf(w, "%-20s %-14s configured %-10s since %s\n",
			program.Printable(s.Key), program.Printable(s.Recorded), program.Printable(s.Configured), showTime(s.Since.Time)); err != nil {
			return err
		}
	}
	return nil
}

func printEffect(w io.Writer, key string, change client.SettingChange, effect client.SettingEffect) error {
	switch {
	case !effect.Changed:
		return printf(w, "%s is %s already\n", key, change.Value)
	case key != "dormant_after" && change.DryRun:
		return printf(w, "%s would become %s\n", key, change.Value)
	case key != "dormant_after":
		return printf(w, "%s is %s now\n", key, change.Value)
	case change.DryRun:
		return printf(w, "%s would become %s: %s would change between active and dormant\n", key, change.Value, plural(effect.Users, "user", "users"))
	default:
		return printf(w, "%s is %s now: %s changed between active and dormant\n", key, change.Value, plural(effect.Users, "user", "users"))
	}
}

func newAdminProcesses(p program.Process) *cobra.Command {
	var s server
	out := output{w: p.Stdout}
	cmd := &cobra.Command{
		Use:     "processes",
		Short:   "List the processes that were seen within a day",
		Long:    "List the processes that were seen within a day. A process reports itself every 10 s.",
		Example: "  fanmail admin processes",
		Args:    program.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := s.dial(p)
			if err != nil {
				return err
			}
			defer c.Close()
			list, err := c.Processes(cmd.Context())
			if err != nil {
				return err
			}
			return out.print(client.ProcessList{Processes: list}, func(w io.Writer) error {
				for _, process := range list {
					if err := printf(w, "%s  %s  seen %s\n",
						program.Printable(process.Name), program.Printable(process.Role), showTime(process.Seen.Time)); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	s.addServer(cmd, app.Rehydrator)
	out.addJSON(cmd, "print the processes as JSON")
	return cmd
}

package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fanmail/fanmail/internal/app"
	"github.com/fanmail/fanmail/internal/cli/program"
	"github.com/fanmail/fanmail/pkg/client"
)

// ask is what a command does with a client of a server and its arguments.
type ask func(ctx context.Context, c *client.Client, args []string) error

// onServer completes a command that asks a process with this role.
func onServer(p program.Process, role app.Role, cmd *cobra.Command, do ask) *cobra.Command {
	var s server
	s.addServer(cmd, role)
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return s.run(cmd.Context(), p, do, args) }
	return cmd
}

// action is one of the things that a command can do. Its name is the command's first argument.
type action struct {
	name string
	// args checks the other arguments.
	args cobra.PositionalArgs
	// flags are the flags of the command that only some actions have, this one among them.
	flags []string
	// role is the role that serves the action; empty for that of the command.
	role app.Role
	do   ask
}

// withActions completes a command that asks a process with this role, and whose first argument says for what.
func withActions(p program.Process, role app.Role, cmd *cobra.Command, actions ...action) *cobra.Command {
	var s server
	roles := []app.Role{role}
	names := make([]string, len(actions))
	for i, a := range actions {
		names[i] = a.name
		if a.role != "" {
			roles = append(roles, a.role)
		}
	}
	s.addServer(cmd, roles...)
	chosen := func(name string) *action {
		if i := slices.Index(names, name); i >= 0 {
			return &actions[i]
		}
		return nil
	}
	cmd.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return names, cobra.ShellCompDirectiveNoFileComp
		}
		return nil, cobra.ShellCompDirectiveDefault
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return program.Usagef("%s is missing: give %s", strings.Fields(cmd.Use)[1], choice(names))
		}
		a := chosen(args[0])
		if a == nil {
			return unknownCommand(cmd, args[0], names...)
		}
		if err := a.args(cmd, args[1:]); err != nil {
			return err
		}
		return a.checkFlags(cmd, actions)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		a := chosen(args[0])
		if a.role != "" {
			s.role = a.role
		}
		return s.run(cmd.Context(), p, a.do, args[1:])
	}
	return cmd
}

// checkFlags returns a usage error for a flag that goes with other actions only.
func (a *action) checkFlags(cmd *cobra.Command, actions []action) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		var with []string
		for _, other := range actions {
			if slices.Contains(other.flags, f.Name) {
				with = append(with, other.name)
			}
		}
		if err == nil && len(with) > 0 && !slices.Contains(with, a.name) {
			err = program.Usagef("--%s goes with '%s %s': leave it out", f.Name, cmd.CommandPath(), choice(with))
		}
	})
	return err
}

// choice returns names as a choice: "a, b or c".
func choice(names []string) string {
	last := len(names) - 1
	if last == 0 {
		return names[0]
	}
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// withCommands completes a command that does nothing without one of the commands below it.
func withCommands(cmd *cobra.Command, below ...*cobra.Command) *cobra.Command {
	cmd.AddCommand(below...)
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return unknownCommand(cmd, args[0])
		}
		var names []string
		for _, sub := range below {
			names = append(names, sub.Name())
		}
		return program.Usagef("name a command: %s", choice(names))
	}
	return cmd
}

package cli_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/cli"
	"github.com/fanmail/fanmail/internal/cli/program"
)

// TestReference holds the reference of all commands in the documentation and the program together.
func TestReference(t *testing.T) {
	t.Parallel()
	const path = "../../docs/commands.md"
	var b strings.Builder
	b.WriteString("# Commands\n\n" +
		"<!-- This is generated from the commands themselves: make generate -->\n\n" +
		"What `--help` prints, in one place. A command that runs a server, or works on a store, takes every key of the\n" +
		"[configuration](configuration.md) as a flag; only those that are needed most are listed here. Exit codes: 0 done, 1 failed, 2 wrong usage.\n")
	commands := []*cobra.Command{cli.NewRoot(program.Process{})}
	for _, role := range programs {
		commands = append(commands, program.NewRole(program.Process{}, role))
	}
	b.WriteString("\n")
	for _, program := range commands {
		contents(&b, program, "")
	}
	for _, program := range commands {
		describe(&b, program)
	}
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(b.String()), 0o600))
		return
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(text), b.String(), "%s is stale: make generate", path)
}

// shown returns the commands below one that its help lists.
func shown(cmd *cobra.Command) (below []*cobra.Command) {
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			below = append(below, sub)
		}
	}
	return below
}

// contents writes a list of a command and those below it.
func contents(b *strings.Builder, cmd *cobra.Command, indent string) {
	fmt.Fprintf(b, "%s- [`%s`](#%s) %s\n", indent, cmd.CommandPath(), strings.ReplaceAll(cmd.CommandPath(), " ", "-"), cmd.Short)
	for _, sub := range shown(cmd) {
		contents(b, sub, indent+"  ")
	}
}

// describe writes a chapter about a command and each of those below it.
func describe(b *strings.Builder, cmd *cobra.Command) {
	cmd.InitDefaultHelpFlag()
	cmd.InitDefaultVersionFlag()
	long := cmd.Long
	if long == "" {
		long = cmd.Short + "."
	}
	fmt.Fprintf(b, "\n## %s\n\n%s\n", cmd.CommandPath(), long)
	if cmd.Runnable() {
		fmt.Fprintf(b, "\n```\n%s\n```\n", cmd.UseLine())
	}
	if cmd.Example != "" {
		fmt.Fprintf(b, "\nExamples:\n\n```sh\n%s\n```\n", strings.ReplaceAll(strings.TrimPrefix(cmd.Example, "  "), "\n  ", "\n"))
	}
	b.WriteString("\n| flag | default | meaning |\n| --- | --- | --- |\n")
	cmd.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			fmt.Fprintln(b, flagRow(f))
		}
	})
	for _, sub := range shown(cmd) {
		describe(b, sub)
	}
}

// flagRow returns a row of the table of flags.
func flagRow(f *pflag.Flag) string {
	kind, usage := pflag.UnquoteUsage(f)
	name := "`--" + strings.TrimSpace(f.Name+" "+kind) + "`"
	if f.Shorthand != "" {
		name = "`-" + f.Shorthand + "`, " + name
	}
	value := ""
	if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "[]" && f.DefValue != "0" {
		value = "`" + f.DefValue + "`"
	}
	return "| " + name + " | " + value + " | " + strings.ReplaceAll(usage, "|", `\|`) + " |"
}

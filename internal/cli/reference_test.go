package cli_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/config"
	"github.com/fanmail/fanmail/internal/cli"
	"github.com/fanmail/fanmail/internal/cli/program"
)

// TestReference compares the documented reference of all commands with the program.
func TestReference(t *testing.T) {
	t.Parallel()
	const path = "../../docs/commands.md"
	var b strings.Builder
	b.WriteString("# Commands\n\n" +
		"<!-- This is generated from the commands themselves: make generate -->\n\n" +
		"The text of `--help` for all commands. Every command also takes `-h` and `--help`, and commands with configuration flags take `--help-all`,\n" +
		"which lists the flags that `--help` leaves out. Exit codes: 0 done, 1 failed, 2 wrong usage.\n\n" +
		"**Completion.** `source <(fanmail completion bash)`, or the same for `zsh`; `fanmail completion fish | source`. `fanmail completion SHELL --help`\n" +
		"says how to install it. **Manual pages.** `fanmail manpages DIR` writes one for each command.\n")
	fanmail := cli.NewRoot(program.Process{})
	commands := []*cobra.Command{fanmail}
	for _, role := range programs {
		commands = append(commands, program.NewRole(program.Process{}, role))
	}
	b.WriteString("\n")
	for _, program := range commands {
		contents(&b, program, "")
	}
	b.WriteString("- [flags of several commands](#flags-of-several-commands)\n")
	groups := shared(t, fanmail)
	for _, program := range commands {
		describe(&b, program, groups)
	}
	b.WriteString("\n## Flags of several commands\n")
	for _, g := range groups {
		fmt.Fprintf(&b, "\n### %s\n\n%s\n\n%s", g.title, g.about, flagHead)
		for _, row := range g.rows {
			b.WriteString(row + "\n")
		}
	}
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(b.String()), 0o600))
		return
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(text), b.String(), "%s is stale: make generate", path)
}

// shown returns the subcommands that the help of a command lists.
func shown(cmd *cobra.Command) (below []*cobra.Command) {
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			below = append(below, sub)
		}
	}
	return below
}

// contents writes a list of a command and its subcommands.
func contents(b *strings.Builder, cmd *cobra.Command, indent string) {
	fmt.Fprintf(b, "%s- [`%s`](#%s) %s\n", indent, cmd.CommandPath(), strings.ReplaceAll(cmd.CommandPath(), " ", "-"), cmd.Short)
	for _, sub := range shown(cmd) {
		contents(b, sub, indent+"  ")
	}
}

// group is a list of flags that several commands share.
type group struct {
	title, about string
	names, rows  []string
}

// shared returns the groups of flags. It reads each group from one command that has all flags of the group.
func shared(t *testing.T, fanmail *cobra.Command) []group {
	t.Helper()
	read := func(title, about string, from []string, in func(f *pflag.Flag) bool) group {
		g := group{title: title, about: about}
		cmd, _, err := fanmail.Find(from)
		require.NoError(t, err)
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if listed(f) && in(f) {
				g.names, g.rows = append(g.names, f.Name), append(g.rows, flagRow(f))
			}
		})
		return g
	}
	keys := []string{"config"}
	for _, key := range config.Keys() {
		keys = append(keys, key.Flag)
	}
	connection := []string{"server", "token-file", "ca-file", "cert-file", "key-file"}
	return []group{
		read("Configuration flags", "Commands that run a server or open a store take every key of the [configuration](configuration.md) as a flag.\n"+
			"`--help` lists these.", []string{"serve"}, func(f *pflag.Flag) bool { return slices.Contains(keys, f.Name) }),
		read("Connection flags", "Commands that talk to a server take these flags.",
			[]string{"login"}, func(f *pflag.Flag) bool { return slices.Contains(connection, f.Name) }),
	}
}

// listed reports whether the reference lists a flag: those of the help are the same everywhere.
func listed(f *pflag.Flag) bool { return !f.Hidden && f.Name != "help" && f.Name != program.HelpAll }

// describe writes a chapter about a command and one about each subcommand. It replaces the flags of a group by a link to the group.
func describe(b *strings.Builder, cmd *cobra.Command, groups []group) {
	cmd.InitDefaultHelpFlag()
	cmd.InitDefaultVersionFlag()
	long := cmd.Long
	if long == "" {
		long = cmd.Short + "."
	}
	fmt.Fprintf(b, "\n## %s\n", cmd.CommandPath())
	for paragraph := range strings.SplitSeq(long, "\n\n") {
		if strings.HasPrefix(paragraph, " ") { // lines that stay as they are
			paragraph = "```\n" + paragraph + "\n```"
		}
		fmt.Fprintf(b, "\n%s\n", paragraph)
	}
	if cmd.Runnable() {
		fmt.Fprintf(b, "\n```\n%s\n```\n", cmd.UseLine())
	}
	if cmd.Example != "" {
		fmt.Fprintf(b, "\nExamples:\n\n```sh\n%s\n```\n", strings.ReplaceAll(strings.TrimPrefix(cmd.Example, "  "), "\n  ", "\n"))
	}
	var own []string
	takes := make(map[string][]string) // by title of the group: the flags of the group that the command lacks
	rows := make(map[string]bool)
	cmd.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
		if listed(f) {
			rows[flagRow(f)] = true
			own = append(own, flagRow(f))
		}
	})
	for _, g := range groups {
		var missing []string
		for i, row := range g.rows {
			if !rows[row] {
				missing = append(missing, "`--"+g.names[i]+"`")
			}
		}
		if len(missing) < len(g.rows)/2 {
			takes[g.title] = missing
			own = slices.DeleteFunc(own, func(row string) bool { return slices.Contains(g.rows, row) })
		}
	}
	if len(own) > 0 {
		b.WriteString("\n" + flagHead + strings.Join(own, "\n") + "\n")
	}
	for _, g := range groups {
		lacks, found := takes[g.title]
		if !found {
			continue
		}
		fmt.Fprintf(b, "\nIt takes the [%s](#%s)", strings.ToLower(g.title), strings.ReplaceAll(strings.ToLower(g.title), " ", "-"))
		if len(lacks) > 0 {
			b.WriteString(" without " + strings.Join(lacks, " and "))
		}
		b.WriteString(".\n")
	}
	for _, sub := range shown(cmd) {
		describe(b, sub, groups)
	}
}

const flagHead = "| flag | default | meaning |\n| --- | --- | --- |\n"

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

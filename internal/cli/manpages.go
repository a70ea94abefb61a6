package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fanmail/fanmail/internal/app"
	"github.com/fanmail/fanmail/internal/cli/program"
)

// newManpages returns a hidden command for packagers. It writes the manual pages of all programs.
func newManpages() *cobra.Command {
	return &cobra.Command{
		Use:    "manpages DIR",
		Short:  "Write the manual pages of all commands to a folder",
		Args:   program.Exactly("DIR"),
		Hidden: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil { //nolint:gosec // manual pages are public
				return err
			}
			programs := []*cobra.Command{cmd.Root()}
			for _, role := range []app.Role{app.Publisher, app.FanoutWorker, app.Rehydrator} {
				programs = append(programs, program.NewRole(program.Process{}, role))
			}
			for _, root := range programs {
				if err := writeManpages(args[0], root); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// writeManpages writes the manual page of a command, and those of its subcommands.
func writeManpages(dir string, cmd *cobra.Command) error {
	path := filepath.Join(dir, manualName(cmd)+".1")
	if err := os.WriteFile(path, []byte(manpage(cmd)), 0o644); err != nil { //nolint:gosec // manual pages are public
		return err
	}
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			if err := writeManpages(dir, sub); err != nil {
				return err
			}
		}
	}
	return nil
}

func manualName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// manpage returns the manual page of a command.
func manpage(cmd *cobra.Command) string {
	cmd.InitDefaultHelpFlag()
	cmd.InitDefaultVersionFlag()
	var b strings.Builder
	section := func(title string) { fmt.Fprintf(&b, ".SH %s\n", title) }
	fmt.Fprintf(&b, ".TH %s 1 \"\" \"%s\" \"Fanmail\"\n", roff(strings.ToUpper(manualName(cmd))), roff("Fanmail "+program.Version()))
	section("NAME")
	fmt.Fprintf(&b, "%s \\- %s\n", roff(manualName(cmd)), roff(cmd.Short))
	section("SYNOPSIS")
	fmt.Fprintf(&b, "%s\n", roff(cmd.UseLine()))
	section("DESCRIPTION")
	long := cmd.Long
	if long == "" {
		long = cmd.Short + "."
	}
	for i, paragraph := range strings.Split(long, "\n\n") {
		switch {
		case strings.HasPrefix(paragraph, " "): // lines that stay as they are
			fmt.Fprintf(&b, ".PP\n.EX\n%s\n.EE\n", roff(paragraph))
			continue
		case i > 0:
			b.WriteString(".PP\n")
		}
		b.WriteString(roff(paragraph) + "\n")
	}
	related := manualOptions(&b, cmd)
	if cmd.Example != "" {
		section("EXAMPLES")
		fmt.Fprintf(&b, ".EX\n%s\n.EE\n", roff(cmd.Example))
	}
	if len(related) > 0 {
		section("SEE ALSO")
		b.WriteString(strings.Join(related, ",\n") + "\n")
	}
	return b.String()
}

// manualOptions writes the flags of a command and returns references to the commands above and below it.
func manualOptions(b *strings.Builder, cmd *cobra.Command) (related []string) {
	if cmd.LocalFlags().HasFlags() {
		b.WriteString(".SH OPTIONS\n")
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			kind, usage := pflag.UnquoteUsage(f)
			b.WriteString(".TP\n")
			if f.Shorthand != "" {
				fmt.Fprintf(b, "\\fB%s\\fR, ", roff("-"+f.Shorthand))
			}
			fmt.Fprintf(b, "\\fB%s\\fR", roff("--"+f.Name))
			if kind != "" {
				fmt.Fprintf(b, " \\fI%s\\fR", roff(kind))
			}
			fmt.Fprintf(b, "\n%s", roff(usage))
			if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "[]" && f.DefValue != "0" {
				fmt.Fprintf(b, " (default %s)", roff(f.DefValue))
			}
			b.WriteString("\n")
		})
	}
	refer := func(to *cobra.Command) { related = append(related, fmt.Sprintf("\\fB%s\\fR(1)", roff(manualName(to)))) }
	if cmd.HasParent() {
		refer(cmd.Parent())
	}
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			refer(sub)
		}
	}
	return related
}

// roff escapes what has a meaning in a manual page.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, `"`, `\(dq`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}

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

// manpage returns the manual page of a command: its help with all flags, line by line as it is printed.
func manpage(cmd *cobra.Command) string {
	cmd.InitDefaultHelpFlag()
	cmd.InitDefaultVersionFlag()
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) { f.Hidden = false })
	long := cmd.Long
	if long == "" {
		long = cmd.Short + "."
	}
	name := manualName(cmd)
	return fmt.Sprintf(".TH %s 1 \"\" \"%s\" \"Fanmail\"\n.SH NAME\n%s \\- %s\n.SH DESCRIPTION\n.EX\n%s\n\n%s.EE\n",
		roff(strings.ToUpper(name)), roff("Fanmail "+program.Version()), roff(name), roff(cmd.Short), roff(long), roff(cmd.UsageString()))
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

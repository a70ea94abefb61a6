package cli

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/fanmail/fanmail/config"
	"github.com/fanmail/fanmail/internal/cli/program"
)

func newConfig(p program.Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Print the effective configuration",
		Long: "Print the configuration that 'fanmail serve' would use with the same flags, environment and file. The output is\n" +
			"a file for --config. Comments name the keys that flags and environment variables set.",
		Example: "  fanmail config > fanmail.yaml\n  FANMAIL_LIMITS_BODY=8KiB fanmail config --json",
		Args:    program.Exactly(),
	}
	s := program.NewSettings(p, cmd, program.NoKey)
	out := newOutput(p, cmd, "print it as JSON")
	cmd.RunE = func(*cobra.Command, []string) error {
		cfg, err := s.Load()
		if err != nil {
			return err
		}
		if out.json {
			text, err := cfg.JSON()
			if err != nil {
				return err
			}
			return printf(p.Stdout, "%s", text)
		}
		return printConfig(p.Stdout, s, cfg)
	}
	return cmd
}

func printConfig(w io.Writer, s *program.Settings, cfg config.Config) error {
	if path := s.Path(); path != "" {
		if err := printf(w, "# file: %s\n", program.Printable(path)); err != nil {
			return err
		}
	}
	for _, key := range config.Keys() {
		if origin := s.Origin(key); origin != "" {
			if err := printf(w, "# %s: set by %s\n", key.Name, origin); err != nil {
				return err
			}
		}
	}
	text, err := cfg.YAML()
	if err != nil {
		return err
	}
	return printf(w, "%s", text)
}

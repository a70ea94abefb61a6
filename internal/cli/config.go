package cli

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/fanmail/fanmail/config"
)

func newConfig(p Process) *cobra.Command {
	out := output{w: p.Stdout}
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Print the effective configuration",
		Long: "Print the configuration that 'fanmail serve' would run with, given the same flags, environment and file, as a\n" +
			"file that can be given to --config. Comments tell which keys flags and environment variables set.",
		Example: "  fanmail config > fanmail.yaml\n  FANMAIL_LIMITS_BODY=8KiB fanmail config --json",
		Args:    exactly(),
	}
	s := newSettings(p, cmd)
	out.addJSON(cmd, "print it as JSON")
	cmd.RunE = func(*cobra.Command, []string) error {
		cfg, err := s.load()
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

func printConfig(w io.Writer, s *settings, cfg config.Config) error {
	if path := s.path(); path != "" {
		if err := printf(w, "# file: %s\n", printable(path)); err != nil {
			return err
		}
	}
	for _, key := range config.Keys() {
		if origin := s.origin(key); origin != "" {
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

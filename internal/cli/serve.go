package cli

import (
	"github.com/spf13/cobra"

	"github.com/fanmail/fanmail/internal/app/embedded"
	"github.com/fanmail/fanmail/internal/cli/program"
)

func newServe(p program.Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run a server: all roles in one process",
		Long: "Run a server: all roles in one process, on an embedded store and an embedded NATS server, both in the data\n" +
			"folder; or on MongoDB (--store mongodb --mongodb-uri URI) and on NATS servers elsewhere (--nats-url URL). It logs\n" +
			"one line with its URL when it is ready, and ends when it is interrupted or told to terminate, after what is in\n" +
			"flight has finished or the drain timeout has passed. Told to terminate, it first serves on for the drain delay,\n" +
			"with /readyz saying that it is stopping. A second signal ends it at once.\n\n" +
			"The programs publisher, fanout-worker and rehydrator run one role each.\n\n" +
			"Every key that 'fanmail config' prints is a flag, too: limits.body is --limits-body, and the environment variable\n" +
			"FANMAIL_LIMITS_BODY. Flags win over the environment, the environment over the configuration file.",
		Example: "  fanmail serve\n  fanmail serve --addr 127.0.0.1:9000 --data /var/lib/fanmail",
		Args:    program.Exactly(),
	}
	s := program.NewSettings(p, cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := s.Load()
		if err != nil {
			return err
		}
		return program.Serve(cmd.Context(), p, cfg, embedded.Engines{})
	}
	return cmd
}

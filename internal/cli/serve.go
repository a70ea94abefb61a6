package cli

import (
	"github.com/spf13/cobra"

	"github.com/fanmail/fanmail/internal/app"
	"github.com/fanmail/fanmail/internal/app/embedded"
	"github.com/fanmail/fanmail/internal/cli/program"
)

func newServe(p program.Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run a server: all roles in one process",
		Long: "Run a server with all roles in one process. By default the store and the NATS server are embedded and keep their\n" +
			"data in the data folder. To use servers elsewhere, give --store mongodb --mongodb-uri URI and --nats-url URL.\n\n" +
			"The server logs one line with its URL when it is ready. On an interrupt or SIGTERM it finishes requests and work\n" +
			"in progress, within the drain timeout, and exits. After SIGTERM it first serves for the drain delay, while\n" +
			"/readyz answers that it is stopping. A second signal ends it at once.\n\n" +
			"The programs publisher, fanout-worker and rehydrator run one role each.\n\n" +
			"Every key that 'fanmail config' prints is also a flag and an environment variable: limits.body is --limits-body\n" +
			"and FANMAIL_LIMITS_BODY. Flags win over the environment, and the environment wins over the configuration file.",
		Example: "  fanmail serve\n  fanmail serve --addr 127.0.0.1:9000 --data /var/lib/fanmail",
		Args:    program.Exactly(),
	}
	s := program.NewSettings(p, cmd)
	local := cmd.Flags().Bool("local-without-auth", false, "while no authentication is configured, listen on 127.0.0.1, "+
		"at the port of --addr, and do not refuse to start")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := s.Load()
		if err != nil {
			return err
		}
		if *local {
			open := cfg.Addr
			if cfg = app.LocalWithoutAuth(cfg); cfg.Addr != open {
				logger, err := program.NewLogger(p, cfg)
				if err != nil {
					return err
				}
				logger.Warn().Str("addr", open).Str("instead", cfg.Addr).Msg("no authentication is configured: only this host can reach this server")
			}
		}
		return program.Serve(cmd.Context(), p, cfg, embedded.Engines{})
	}
	return cmd
}

package cli

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fanmail/fanmail/config"
	"github.com/fanmail/fanmail/internal/app"
	"github.com/fanmail/fanmail/internal/telemetry"
)

func newServe(p Process) *cobra.Command {
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
		Args:    exactly(),
	}
	s := newSettings(p, cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := s.load()
		if err != nil {
			return err
		}
		return serve(cmd.Context(), p, cfg)
	}
	return cmd
}

// serve runs a server with some of the roles, or with all of them.
func serve(ctx context.Context, p Process, cfg config.Config, roles ...app.Role) error {
	if err := app.CheckOpen(cfg); err != nil {
		return &usageError{err}
	}
	logger, err := telemetry.NewLogger(telemetry.LogOptions{
		Level: cfg.Log.Level, Format: cfg.Log.Format, Writer: p.Stderr, Now: p.Now,
	})
	if err != nil {
		return err
	}
	off := p.getenv(testClockEnv)
	clock, err := testClock(off, p.Now)
	if err != nil {
		return &usageError{err}
	}
	if off != "" {
		logger.Warn().Str("clock", off).Msg("the clock is wrong on purpose: " + testClockEnv + " is set, which is for tests")
	}
	traces, err := telemetry.NewTraces(ctx, telemetry.TracesOptions{
		Getenv: p.getenv, Service: service(roles), Version: version(), Instance: rand.Text(), Writer: p.Stderr, Logger: logger,
	})
	if err != nil {
		return &usageError{err}
	}
	if err := app.New(cfg, app.Options{Roles: roles, Logger: logger, Traces: traces, Now: clock}).Run(ctx); err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// service returns what a process with some roles is called where others are told of it.
func service(roles []app.Role) string {
	if len(roles) != 1 {
		return "fanmail"
	}
	return "fanmail-" + string(roles[0])
}

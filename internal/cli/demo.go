package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/fanmail/fanmail/config"
	"github.com/fanmail/fanmail/internal/app"
	"github.com/fanmail/fanmail/internal/app/embedded"
	"github.com/fanmail/fanmail/internal/cli/program"
	"github.com/fanmail/fanmail/internal/telemetry"
	"github.com/fanmail/fanmail/pkg/client"
)

func newDemo(p program.Process) *cobra.Command {
	out := output{w: p.Stdout}
	verbose := false
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show what Fanmail does, in a temporary folder",
		Long: "Show what Fanmail does. The command starts a server in a temporary folder. Two celebrities talk to each other in\n" +
			"front of two thousand followers, some of them dormant. Meanwhile a user sends a direct message, and a dormant\n" +
			"user returns. The command checks that every message arrived where it should. It takes a few seconds and leaves\n" +
			"nothing behind.",
		Args: program.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			level := "warn"
			if verbose {
				level = "debug"
			}
			return runDemo(cmd.Context(), p, out, level)
		},
	}
	out.addJSON(cmd, "print what happened as JSON")
	cmd.Flags().BoolVar(&verbose, "verbose", false, "show the server's log")
	return cmd
}

func runDemo(ctx context.Context, p program.Process, out output, level string) (err error) {
	dir, err := os.MkdirTemp("", "fanmail-demo-")
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

	cfg := config.Default()
	cfg.Addr, cfg.Data = "127.0.0.1:0", dir
	// The server reserves the maximum size of its streams. A temporary folder may have little room.
	cfg.NATS.MaxPublished, cfg.NATS.MaxFanout, cfg.NATS.MaxLogin, cfg.NATS.MaxDLQ = 32*config.MiB, 64*config.MiB, 16*config.MiB, 16*config.MiB
	logger, err := telemetry.NewLogger(telemetry.LogOptions{Level: level, Format: telemetry.FormatAuto, Writer: p.Stderr, Now: p.Now})
	if err != nil {
		return err
	}
	server := app.New(cfg, app.Options{Embedded: embedded.Engines{}, Logger: logger, Now: p.Now})
	if err := server.Start(ctx); err != nil {
		return fmt.Errorf("demo: start the server: %w", err)
	}
	defer func() { err = errors.Join(err, stopDemo(ctx, server, cfg.DrainTimeout)) }()
	c, err := client.New(server.URL(), client.Options{})
	if err != nil {
		return err
	}
	defer c.Close()

	d := demo{process: p, client: c}
	report, err := d.play(ctx)
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	if err := out.print(report, report.tell); err != nil {
		return err
	}
	if len(report.Failures) > 0 {
		return fmt.Errorf("demo: a check failed: %s", report.Failures[0])
	}
	return nil
}

func stopDemo(ctx context.Context, server *app.App, timeout time.Duration) error {
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	if err := server.Stop(drain); err != nil {
		return fmt.Errorf("demo: stop the server: %w", err)
	}
	return nil
}

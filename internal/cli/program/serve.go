package program

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/rs/zerolog"

	"github.com/fanmail/fanmail/config"
	"github.com/fanmail/fanmail/internal/app"
	"github.com/fanmail/fanmail/internal/telemetry"
)

// Serve runs a server with some roles, or with all roles if none is given, until ctx ends. engines is nil if the program contains no
// embedded store and no embedded NATS server.
func Serve(ctx context.Context, p Process, cfg config.Config, engines app.Embedded, roles ...app.Role) error {
	if err := app.CheckOpen(cfg); err != nil {
		return Usage(err)
	}
	logger, err := NewLogger(p, cfg)
	if err != nil {
		return err
	}
	traces, err := telemetry.NewTraces(ctx, telemetry.TracesOptions{
		Getenv: p.Getenv, Service: service(roles), Version: Version(), Instance: rand.Text(), Writer: p.Stderr, Logger: logger,
	})
	if err != nil {
		return Usage(err)
	}
	err = app.New(cfg, app.Options{Roles: roles, Embedded: engines, Logger: logger, Traces: traces, Now: p.Now}).Run(ctx)
	switch {
	case errors.Is(err, app.ErrNotEmbedded):
		return Usage(err)
	case err != nil:
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// NewLogger returns the logger of a server.
func NewLogger(p Process, cfg config.Config) (zerolog.Logger, error) {
	return telemetry.NewLogger(telemetry.LogOptions{Level: cfg.Log.Level, Format: cfg.Log.Format, Writer: p.Stderr, Now: p.Now})
}

// service returns the name of a process with these roles in traces.
func service(roles []app.Role) string {
	if len(roles) != 1 {
		return "fanmail"
	}
	return "fanmail-" + string(roles[0])
}

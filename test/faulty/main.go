// Command faulty is "fanmail serve", or one role of it, that kills itself, as kill -9 would, at a chosen point of its work.
//
// It is configured by FANMAIL_* variables alone. What a test learns from it is whether a server that takes over
// afterwards makes up for whatever was left half done.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/fanmail/fanmail/config"
	"github.com/fanmail/fanmail/internal/app"
	"github.com/fanmail/fanmail/internal/app/embedded"
	"github.com/fanmail/fanmail/internal/telemetry"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "faulty: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	at := flag.String("at", "", "`point` to die at: "+strings.Join(points, ", "))
	when := flag.String("when", "", "moment to die at: "+strings.Join(moments, ", "))
	nth := flag.Int64("nth", 1, "which time it comes to the point, counted from 1")
	role := flag.String("role", "", "`role` to run: publisher, fanout-worker or rehydrator (default all)")
	flag.Parse()
	f, err := newFailpoint(*at, *when, *nth)
	if err != nil {
		return err
	}
	cfg, err := config.Load(config.Options{Env: os.Environ()})
	if err != nil {
		return err
	}
	logger, err := telemetry.NewLogger(telemetry.LogOptions{
		Level: cfg.Log.Level, Format: cfg.Log.Format, Writer: os.Stderr, Now: time.Now,
	})
	if err != nil {
		return err
	}
	options := app.Options{Embedded: embedded.Engines{}, Logger: logger, Now: time.Now, Wrap: f.wrap}
	if *role != "" {
		options.Roles = []app.Role{app.Role(*role)}
	}
	err = app.New(cfg, options).Run(ctx)
	return errors.Join(err, f.survived())
}

// Command publisher accepts messages, and who follows whom. See publisher --help.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/fanmail/fanmail/internal/app"
	"github.com/fanmail/fanmail/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(cli.RoleMain(ctx, cli.Process{
		Args: os.Args[1:], Env: os.Environ(),
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Now: time.Now, Width: cli.TerminalWidth,
	}, app.Publisher))
}

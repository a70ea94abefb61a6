// Command withmongodb runs a command, such as go test, with a MongoDB server for the tests, and prints which:
//
//	withmongodb go test ./...
//
// It takes the server at FANMAIL_TEST_MONGODB_URI; else the mongod on the PATH, started for the command in a temporary
// folder; else DocumentDB, likewise, which it installs first if this is Debian and it runs as root. The command finds the
// server in FANMAIL_TEST_MONGODB_URI, and in GOFLAGS the build tags that select the tests for it. Flag -tags of the command replaces these.
//
// Signals go to the command and all that it has started. It exits as the command does, or with 1 if there is no server.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	code, err := run(context.Background(), os.Args[1:], os.Environ(), signals, os.Stderr)
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "withmongodb:", err)
		code = max(1, code)
	}
	os.Exit(code)
}

// run runs a command with a server, and returns the command's exit code.
func run(ctx context.Context, command, environment []string, signals <-chan os.Signal, report io.Writer) (code int, err error) {
	if len(command) > 0 && command[0] == "--" {
		command = command[1:]
	}
	if len(command) == 0 {
		return 2, errors.New("usage: withmongodb COMMAND [ARGUMENT ...]")
	}
	choice, err := choose(ctx, variables(environment), signals, report)
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, choice.close(ctx)) }()
	_, _ = fmt.Fprintln(report, choice.report)
	return runCommand(ctx, command, choice.environment(environment), signals, choice.ended)
}

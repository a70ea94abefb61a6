// Command withmongodb runs a command, such as go test, with a MongoDB server for the tests, and prints the name of the server:
//
//	withmongodb go test ./...
//
// It uses the server at FANMAIL_TEST_MONGODB_URI. Without that variable, it starts the mongod on the PATH in a temporary folder.
// Without a mongod, it starts DocumentDB in the same way, and first installs it if this is Debian and the user is root. The command
// receives the server in FANMAIL_TEST_MONGODB_URI, and in GOFLAGS the build tags that select its tests. A flag -tags of the command
// replaces them.
//
// Signals go to the command and to all processes that it has started. withmongodb exits with the code of the command, or with 1 if
// there is no server.
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

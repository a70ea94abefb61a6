// Command rehydrator serves inboxes, and rebuilds those of whoever comes back. See rehydrator --help.
package main

import (
	"os"
	"time"

	"github.com/fanmail/fanmail/internal/app"
	"github.com/fanmail/fanmail/internal/cli"
)

func main() {
	os.Exit(cli.RoleMain(cli.Signals(), cli.Process{
		Args: os.Args[1:], Env: os.Environ(),
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Now: time.Now, Width: cli.TerminalWidth,
	}, app.Rehydrator))
}

// Command rehydrator serves inboxes, and rebuilds those of returning users. See rehydrator --help.
package main

import (
	"os"
	"time"

	"github.com/fanmail/fanmail/internal/app"
	"github.com/fanmail/fanmail/internal/cli/program"
)

func main() {
	os.Exit(program.RoleMain(program.Signals(), program.Process{
		Args: os.Args[1:], Env: os.Environ(),
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Now: time.Now, Width: program.TerminalWidth,
	}, app.Rehydrator))
}

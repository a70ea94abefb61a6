// Command fanmail delivers one message into millions of inboxes. See fanmail --help.
package main

import (
	"os"
	"time"

	"github.com/fanmail/fanmail/internal/cli"
	"github.com/fanmail/fanmail/internal/cli/program"
)

func main() {
	program.ShareCores()
	os.Exit(cli.Main(program.Signals(), program.Process{
		Args: os.Args[1:], Env: os.Environ(),
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Now: time.Now, Width: program.TerminalWidth,
	}))
}

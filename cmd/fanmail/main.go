// Command fanmail delivers one message into millions of inboxes. See fanmail --help.
package main

import (
	"os"
	"time"

	"github.com/fanmail/fanmail/internal/cli"
)

func main() {
	os.Exit(cli.Main(cli.Signals(), cli.Process{
		Args: os.Args[1:], Env: os.Environ(),
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Now: time.Now, Width: cli.TerminalWidth,
	}))
}

// Command wrongclock runs a program of Fanmail with a clock that is wrong, for tests of processes whose clocks disagree:
//
//	wrongclock -clock 30s fanmail serve
//	wrongclock -clock 30s,-20s/5s publisher --addr 127.0.0.1:8080
//
// The first clock is 30 seconds ahead. The second one is 30 seconds ahead for five seconds, then 20 seconds behind for five
// seconds, and so on.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/fanmail/fanmail/internal/app"
	"github.com/fanmail/fanmail/internal/cli"
	"github.com/fanmail/fanmail/internal/cli/program"
)

func main() {
	offsets := flag.String("clock", "0s", "offset of the clock, or several `offsets` and how long each holds")
	flag.Parse()
	clock, err := newClock(*offsets, time.Now)
	if err == nil && flag.NArg() == 0 {
		err = errors.New("give the program to run, such as fanmail")
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "wrongclock: %v\n", err)
		os.Exit(program.ExitUsage)
	}
	process := program.Process{
		Args: flag.Args()[1:], Env: os.Environ(),
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Now: clock, Width: program.TerminalWidth,
	}
	if name := flag.Arg(0); name != "fanmail" {
		os.Exit(program.RoleMain(program.Signals(), process, app.Role(name)))
	}
	os.Exit(cli.Main(program.Signals(), process))
}

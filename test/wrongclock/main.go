// Command wrongclock runs a program of Fanmail with a clock that is wrong, for tests of processes whose clocks disagree:
//
//	wrongclock -clock 30s fanmail serve
//	wrongclock -clock 30s,-20s/5s publisher --addr 127.0.0.1:8080
//	wrongclock -clock 0s,1h,0s/signal fanmail serve
//
// The first clock is 30 seconds ahead. The second clock is 30 seconds ahead for five seconds, then 20 seconds behind for five
// seconds, and so on. The third clock is right. At the first SIGUSR1 it is set ahead by an hour, at the second it is set right. After each
// change, the program prints a line with the offset on standard error.
//
// Only the wall clock is wrong. The monotonic readings of its times, and the timers of the process, are those of the host.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/fanmail/fanmail/internal/app"
	"github.com/fanmail/fanmail/internal/cli"
	"github.com/fanmail/fanmail/internal/cli/program"
)

func main() {
	offsets := flag.String("clock", "0s", "offset of the clock, or several `offsets` and how long each holds, or /signal")
	flag.Parse()
	wrong, err := newClock(*offsets, time.Now)
	if err == nil && flag.NArg() == 0 {
		err = errors.New("give the program to run, such as fanmail")
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "wrongclock: %v\n", err)
		os.Exit(program.ExitUsage)
	}
	stepAtSignals(wrong)
	process := program.Process{
		Args: flag.Args()[1:], Env: os.Environ(),
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Now: wrong.now, Width: program.TerminalWidth,
	}
	if name := flag.Arg(0); name != "fanmail" {
		os.Exit(program.RoleMain(program.Signals(), process, app.Role(name)))
	}
	os.Exit(cli.Main(program.Signals(), process))
}

// stepAtSignals changes the clock at each SIGUSR1, until the process ends.
func stepAtSignals(c *clock) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1)
	go func() {
		for range signals {
			if c.period == 0 {
				fmt.Fprintf(os.Stderr, "wrongclock: the clock is set by %v\n", c.step())
			}
		}
	}()
}

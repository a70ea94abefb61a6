// Command proof searches every state that small instances of Fanmail's protocols can reach.
//
// It holds these protocols as models: appending to an inbox (pkg/bucket), bringing a user back (pkg/userstate and
// internal/rehydrate), scanning an audience (internal/progress) and ending its plan, letting messages expire and removing them, marking
// single messages, streaming changes to clients, removing edges, blocking, claiming identities, closing topics, and large pushes past the log. In
// each, writers, workers and hosts stall between any two of their atomic steps, crash, and repeat what others have done. Nothing is sampled: if a
// state can be reached in which a message is lost, is there twice, or is counted wrongly, the search finds a shortest way there.
//
// A search that finds nothing says little unless it could have. So each shortcut that looks reasonable and is not is a
// mutation, a model with a fault, and the search has to find what is wrong with it.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"time"
)

const usage = `proof searches every state that small instances of Fanmail's protocols can reach.

  go run ./test/proof                     every quick instance, and every mutation
  go run ./test/proof -full               the long instances too
  go run ./test/proof -run rehydrate      the instances and mutations whose names match a regular expression
  go run ./test/proof -run TOKEN -traces  with a shortest way to what is wrong

Exit codes: 0 the instances are right and every mutation was caught, 1 something else was found, 2 wrong usage.

`

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr, time.Now))
}

type options struct {
	full, traces bool
	which        *regexp.Regexp
}

func run(args []string, stdout, stderr io.Writer, now func() time.Time) int {
	opts, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		say(stderr, "proof: %v\n", err)
		return 2
	}
	p := printer{stdout, now, opts.traces}
	p.head("INSTANCE")
	good := true
	ran := 0
	for _, i := range instances() {
		if (opts.full || !i.long) && opts.which.MatchString(i.name) {
			ran++
			good = p.search(i.name+": "+i.covers, i.run).violation == "" && good
		}
	}
	p.head("MUTATION")
	for _, s := range shortcuts() {
		if opts.which.MatchString(s.name) {
			ran++
			good = p.search(s.name, s.run).violation != "" && good
		}
	}
	switch {
	case ran == 0:
		say(stderr, "proof: nothing matches %q: leave out -run for a list of names\n", opts.which)
		return 2
	case !good:
		return 1
	}
	return 0
}

func parse(args []string, stderr io.Writer) (options, error) {
	var opts options
	flags := flag.NewFlagSet("proof", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		say(stderr, usage)
		flags.PrintDefaults()
	}
	flags.BoolVar(&opts.full, "full", false, "search the long instances too: some minutes, and up to 2 GiB")
	flags.BoolVar(&opts.traces, "traces", false, "print a shortest way to what is wrong")
	which := flags.String("run", "", "search only what a regular `expression` matches, in any case of letters")
	if err := flags.Parse(args); err != nil {
		return opts, err
	}
	if flags.NArg() > 0 {
		return opts, fmt.Errorf("unexpected argument %q: see -help", flags.Arg(0))
	}
	var err error
	if opts.which, err = regexp.Compile("(?i)" + *which); err != nil {
		return opts, fmt.Errorf("-run: %w", err)
	}
	return opts, nil
}

// printer prints a line for each search when it is over.
type printer struct {
	out    io.Writer
	now    func() time.Time
	traces bool
}

func (p printer) head(what string) {
	say(p.out, "%9s %9s %6s %8s  %-50s %s\n", "STATES", "STEPS", "DEPTH", "SECONDS", "FOUND", what)
}

func (p printer) search(name string, run func() outcome) outcome {
	begun := p.now()
	found := run()
	what := found.violation
	if what == "" {
		what = "nothing"
	}
	say(p.out, "%9d %9d %6d %8.1f  %-50s %s\n", found.states, found.transitions, found.depth, p.now().Sub(begun).Seconds(), what, name)
	if p.traces {
		for i, l := range found.trace {
			say(p.out, "%4d  %s\n          %s\n", i, l.event, l.state)
		}
	}
	return found
}

// say prints for people. That it fails is nothing they could be told.
func say(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }

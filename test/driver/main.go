// Command driver puts load on a server. It turns recorded data into users and messages, publishes messages over many connections,
// and lets users return. It logs every accepted message and every page that a user saw, so that test/check can check them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

const usage = `driver makes work for a Fanmail server, and logs what was accepted.

  go run ./test/driver users --last-seen test/testdata/email-eu.last-seen.tsv > users.ndjson
  go run ./test/driver users --follows test/testdata/wiki-vote.follows.tsv.gz > users.ndjson
  go run ./test/driver celebrities --follows test/testdata/wiki-vote.follows.tsv.gz > messages.ndjson
  go run ./test/driver publish --server http://127.0.0.1:8080 --file messages.ndjson --log published.ndjson

  go run ./test/driver login --server http://127.0.0.1:8080 --file test/testdata/email-eu.last-seen.tsv --log logins.ndjson

Commands:
  users        print users and when they were seen last, as "fanmail import users" reads them
  celebrities  print one message by each of the most followed, to their followers
  views        print recorded mails as a trace of views and messages, as "go run -C bench . dormancy" reads it
  publish      publish the messages of a file, each exactly once, whatever happens to the server meanwhile
  login        let users come back, and log what they see

Each command has a --help. Files may be compressed with gzip. Exit codes: 0 done, 1 failed, 2 wrong usage.
`

// program is the part of the process that the commands use.
type program struct {
	stdout, stderr io.Writer
	now            func() time.Time
}

// errUsage means that the command line is wrong, and that the reason is already printed.
var errUsage = errors.New("wrong usage")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], program{stdout: os.Stdout, stderr: os.Stderr, now: time.Now})
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, p program) int {
	commands := map[string]func(context.Context, []string, program) error{
		"users": printUsers, "celebrities": printCelebrities, "views": printViews,
		"publish": publishFile, "login": loginAll,
	}
	if len(args) == 0 {
		say(p.stderr, usage)
		return 2
	}
	command, ok := commands[args[0]]
	if !ok {
		say(p.stderr, usage)
		if args[0] == "help" || args[0] == "--help" || args[0] == "-h" {
			return 0
		}
		return 2
	}
	switch err := command(ctx, args[1:], p); {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, errUsage):
		return 2
	default:
		say(p.stderr, "driver %s: %v\n", args[0], err)
		return 1
	}
}

// say prints a text. It ignores errors, because there is no other place to report them.
func say(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }

// newFlags returns the flag set of a command.
func newFlags(p program, name, about string) *flag.FlagSet {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(p.stderr)
	flags.Usage = func() {
		say(p.stderr, "%s\n\n", about)
		flags.PrintDefaults()
	}
	return flags
}

// parse parses a command line that has only flags.
func parse(flags *flag.FlagSet, args []string) error {
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return err
	case err != nil:
		return errUsage // the flag set has printed the reason
	case flags.NArg() > 0:
		return wrong(flags, "unexpected argument %q", flags.Arg(0))
	}
	return nil
}

func wrong(flags *flag.FlagSet, format string, args ...any) error {
	say(flags.Output(), "driver %s: %s (see --help)\n", flags.Name(), fmt.Sprintf(format, args...))
	return errUsage
}

// Command peers measures how long Fanmail and programs built on job queues take to deliver the same messages to the same followers, on
// this machine. bench/peers/run installs the servers, builds the programs and starts it; README.md explains what is compared.
//
// It starts itself again as two other processes: "work" accepts and delivers messages, and "read" looks for them in the inboxes.
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
)

// options are the flags of all three processes.
type options struct {
	followers, messages, runs, body int
	only                            string
	json                            bool
	redis, postgres, fanmail        int
	perJob                          int
	root, data, binary              string
}

// parse reads the flags and requires sensible numbers.
func parse(args []string, output io.Writer) (options, error) {
	var o options
	set := flag.NewFlagSet("peers", flag.ContinueOnError)
	set.SetOutput(output)
	set.IntVar(&o.followers, "followers", 10_000, "followers of the author of all messages")
	set.IntVar(&o.messages, "messages", 3, "messages, published one right after the other")
	set.IntVar(&o.runs, "runs", 3, "runs of each row; the figures are their medians")
	set.IntVar(&o.body, "body", 200, "bytes of a message's body")
	set.StringVar(&o.only, "only", "", "only the rows whose name contains this text")
	set.BoolVar(&o.json, "json", false, "print the result as JSON")
	set.IntVar(&o.redis, "redis-port", 16379, "port of 127.0.0.1 for Redis")
	set.IntVar(&o.postgres, "postgres-port", 15432, "port of 127.0.0.1 for PostgreSQL")
	set.IntVar(&o.fanmail, "fanmail-port", 18080, "port of 127.0.0.1 for Fanmail")
	set.IntVar(&o.perJob, "per-job", 1, "followers of a job (the script's programs set it)")
	set.StringVar(&o.root, "root", "", "folder with the installed servers (the script sets it)")
	set.StringVar(&o.data, "data", "", "folder for all data, which the servers see as /srv (the script sets it)")
	set.StringVar(&o.binary, "fanmail", "", "program fanmail (the script sets it)")
	if err := set.Parse(args); err != nil {
		return options{}, err
	}
	if set.NArg() > 0 {
		return options{}, fmt.Errorf("unexpected argument %q", set.Arg(0))
	}
	for name, value := range map[string]int{"followers": o.followers, "messages": o.messages, "runs": o.runs, "per-job": o.perJob} {
		if value < 1 {
			return options{}, fmt.Errorf("--%s %d: it must be at least 1", name, value)
		}
	}
	if least := len(bodyOf(o.messages, 0)); o.body < least || o.body > 10_000 {
		return options{}, fmt.Errorf("--body %d: it must be between %d and 10000", o.body, least)
	}
	return o, nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

// run runs one of the three processes.
func run(ctx context.Context, args []string) error {
	process, kind := "compare", ""
	if len(args) >= 2 && (args[0] == "work" || args[0] == "read") {
		process, kind, args = args[0], args[1], args[2:]
	}
	o, err := parse(args, os.Stderr)
	if err != nil {
		return err
	}
	switch process {
	case "work":
		return work(ctx, kind, o)
	case "read":
		return read(ctx, kind, o)
	default:
		return compare(ctx, o)
	}
}

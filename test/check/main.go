// Command check reports whether every published message is in exactly the right inboxes, once.
//
// It is independent of Fanmail's code: from the published messages, the edges and the times when users were seen, it computes
// the content of each inbox. It reads every inbox over HTTP page by page, and compares. It exits with 1 if it finds anything
// wrong.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"time"
)

const usage = `check reports whether every published message is in exactly the inboxes that it belongs in, once.

  go run ./test/check --server http://127.0.0.1:8080 --published LOG --follows FILE --users FILE

It reads these files. Each may be compressed with gzip. Separate several files of one kind by commas:

  --published  the published messages, as "go run ./test/driver publish" logs them: NDJSON with id, from, to, audience, body;
               also the follows and unfollows meanwhile
  --follows    the edges at the beginning: a follower, a tab, a followee; needed only if messages went to followers
  --users      when users were seen: NDJSON with user and last_viewed. A user who is not listed was never seen
  --logins     the users who returned, as "go run ./test/driver login" logs them. All of them count as active now
  --unlogged   users who may have returned earlier without an entry in --logins: one user a line
  --pairs      a user, a tab, the user's twin, to whom everything happens that happens to the user: check compares their inboxes
  --clocks     when the servers' clocks were wrong, by the driver's clock: NDJSON with since, until, and an offset such as 1h

A message belongs in the inbox of every user whom it names. If its audience is "followers", it also belongs in the inbox of every
user who followed its author when it was sent. Fan-out delivers it to users who were seen within --dormant-after of that time, and
skips the others. The inbox of a dormant user shows it as well, and says that the inbox is not complete. For a user who returned, check
compares the recovered messages, and the pages shown before the inbox was complete, with the messages accepted by then.
Only the events in these files may have happened on the server: no other message was published, and none was deleted.

Exit codes: 0 nothing is wrong, 1 something is wrong or the check failed, 2 wrong usage.

`

type options struct {
	server       string
	published    string
	follows      string
	users        string
	logins       string
	unlogged     string
	pairs        string
	clocks       string
	dormantAfter time.Duration
	settledAfter time.Duration
	// clocksApart is the maximum time by which the servers' clocks may be ahead of the driver's.
	clocksApart time.Duration
	// rehydrateLimit is the number of messages that the server copies for a returning user; 0 means all.
	rehydrateLimit int
	pageSizes      []int
	workers        int
	wait           time.Duration
	timeout        time.Duration
	examples       int
	json           bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	opts, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		say(stderr, "check: %v\n", err)
		return 2
	}
	ctx, cancel := context.WithTimeout(ctx, opts.timeout)
	defer cancel()
	found, err := check(ctx, opts)
	if err != nil {
		say(stderr, "check: %v\n", err)
		return 1
	}
	if opts.json {
		err = json.NewEncoder(stdout).Encode(found)
	} else {
		err = found.print(stdout)
	}
	if err != nil || found.Wrong > 0 {
		return 1
	}
	return 0
}

// say prints a text. It ignores errors, because there is no other place to report them.
func say(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }

func parse(args []string, stderr io.Writer) (options, error) {
	var opts options
	flags := flag.NewFlagSet("check", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		say(stderr, usage)
		flags.PrintDefaults()
	}
	sizes := flags.String("page-sizes", "50,100", "sizes of the pages to read, separated by commas; every inbox is read once with each")
	flags.StringVar(&opts.server, "server", "http://127.0.0.1:8080", "URL of the server")
	flags.StringVar(&opts.published, "published", "", "`file` of what was published (required)")
	flags.StringVar(&opts.follows, "follows", "", "`file` of who follows whom")
	flags.StringVar(&opts.users, "users", "", "`file` of who was seen when (required)")
	flags.StringVar(&opts.logins, "logins", "", "`files` of who came back")
	flags.StringVar(&opts.unlogged, "unlogged", "", "`file` of who may have come back besides")
	flags.StringVar(&opts.pairs, "pairs", "", "`file` of twins")
	flags.StringVar(&opts.clocks, "clocks", "", "`file` of how the servers' clocks were set")
	flags.DurationVar(&opts.clocksApart, "clocks-apart", 0, "how far the servers' clocks may be ahead of the driver's")
	flags.DurationVar(&opts.settledAfter, "settled-after", 4*time.Minute, "publish_slack and clock_tolerance of the server together")
	flags.IntVar(&opts.rehydrateLimit, "rehydrate-limit", 1000, "rehydrate.limit of the server")
	flags.DurationVar(&opts.dormantAfter, "dormant-after", 30*24*time.Hour, "dormant_after of the server")
	flags.IntVar(&opts.workers, "workers", 8, "requests at a time")
	flags.DurationVar(&opts.wait, "wait", 0, "how long to wait for messages whose fan-out is not done, and then for sweeps of returned users")
	flags.DurationVar(&opts.timeout, "timeout", 30*time.Minute, "how long the whole check may take")
	flags.IntVar(&opts.examples, "examples", 20, "how many findings of each kind to list")
	flags.BoolVar(&opts.json, "json", false, "print the report as JSON")
	if err := flags.Parse(args); err != nil {
		return opts, err
	}
	switch {
	case flags.NArg() > 0:
		return opts, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case opts.published == "" || opts.users == "":
		return opts, errors.New("give --published and --users (see --help)")
	case opts.workers < 1:
		return opts, errors.New("--workers must be 1 or more")
	}
	for text := range strings.SplitSeq(*sizes, ",") {
		size, err := strconv.Atoi(text)
		if err != nil || size < 1 {
			return opts, fmt.Errorf("--page-sizes has %q: give numbers such as 50,100", text)
		}
		opts.pageSizes = append(opts.pageSizes, size)
	}
	opts.server = strings.TrimRight(opts.server, "/")
	return opts, nil
}

func check(ctx context.Context, opts options) (*report, error) {
	begun := time.Now()
	in, err := read(opts)
	if err != nil {
		return nil, err
	}
	want := expect(in, opts)
	found := newReport(in, want, opts.examples)
	s := newServer(opts)
	if err := s.checkStatuses(ctx, want, found); err != nil {
		return nil, err
	}
	if err := s.awaitSweeps(ctx, in); err != nil {
		return nil, err
	}
	looks{want: want, opts: opts, found: found}.check(in)
	for _, size := range opts.pageSizes {
		if err := s.checkInboxes(ctx, in, want, size, found); err != nil {
			return nil, err
		}
	}
	if err := s.checkTwins(ctx, in, want, found); err != nil {
		return nil, err
	}
	found.Seconds = time.Since(begun).Seconds()
	return found, nil
}

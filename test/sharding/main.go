// Command sharding simulates how shard keys spread Fanmail's documents, writes and reads over shards.
//
// It makes up a population in which few are followed by many, lets it live for a while, lays the documents that this leaves
// behind out over shards as MongoDB's balancer does, and then counts which shards the next stretch of time writes to and
// reads from. It does so for the keys that Fanmail uses and for those that it might have used, and prints tables in
// Markdown: those of test/sharding/README.md.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

const usage = `sharding simulates how shard keys spread documents, writes and reads over shards.

  go run ./test/sharding                  the tables of test/sharding/README.md
  go run ./test/sharding -seed 7          of another population

Exit codes: 0 done, 2 wrong usage.

`

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	size := standard
	flags := flag.NewFlagSet("sharding", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		say(stderr, usage)
		flags.PrintDefaults()
	}
	flags.Uint64Var(&size.seed, "seed", size.seed, "everything that is random is drawn from this `number`")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2 // the flag set has said why
	case flags.NArg() > 0:
		say(stderr, "sharding: unexpected argument %q: see -help\n", flags.Arg(0))
		return 2
	}
	w := newWorld(size)
	say(stdout, "%s\n%s\n%s", tables(w), topicTable(newForum(w)), inboxTable(w, layouts()))
	return 0
}

// say prints for people. That it fails is nothing they could be told.
func say(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }

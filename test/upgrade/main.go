// Command upgrade records a store of an earlier release, and what clients of that release see in it. A test loads the store, runs
// today's release on it, and expects that clients see the same.
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
	"syscall"

	"github.com/fanmail/fanmail/pkg/client"
)

const usage = `upgrade records a store of an earlier release, and loads it again.

  go run ./test/upgrade record --old DIR --to DIR/embedded
  go run ./test/upgrade record --old DIR --to DIR/mongodb --mongodb-uri URI --mongodb-database NAME
  go run ./test/upgrade load --archive DIR/embedded.tar.gz --data DIR
  go run ./test/upgrade load --archive DIR/mongodb.ndjson.gz --mongodb-uri URI --mongodb-database NAME
  go run ./test/upgrade look --server URL
  go run ./test/upgrade login --server URL

Commands:
  record  let the programs fanmail, faulty and wrongclock of an earlier release fill a store, and write the store and a file
          with what clients see
  load    unpack a data folder, or insert the documents of a database
  look    wait until fan-outs and rehydrations are done, and print what clients see as JSON
  login   log all users in, then do the same as look

A database has no indexes after "load": "fanmail admin init" creates them. Exit codes: 0 done, 1 failed, 2 wrong usage.
`

// place is where a store is: in a data folder, or in a database.
type place struct{ data, uri, database string }

func (p *place) flags(flags *flag.FlagSet) {
	flags.StringVar(&p.uri, "mongodb-uri", "", "connection `string` of a MongoDB server, instead of a data folder")
	flags.StringVar(&p.database, "mongodb-database", "", "`name` of the database on it")
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errUsage):
		say(os.Stderr, usage)
		os.Exit(2)
	default:
		say(os.Stderr, "upgrade: %v\n", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("wrong usage")

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		return errUsage
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	flags.SetOutput(stderr)
	var at place
	at.flags(flags)
	switch args[0] {
	case "record":
		old := flags.String("old", "", "`folder` with the programs of the earlier release (required)")
		to := flags.String("to", "", "`path` of the files to write, without their endings (required)")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		if *old == "" || *to == "" {
			return errUsage
		}
		return record(ctx, *old, *to, at)
	case "load":
		archive := flags.String("archive", "", "`file` that record wrote (required)")
		flags.StringVar(&at.data, "data", "", "data `folder` to create")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		if *archive == "" || (at.data == "") == (at.uri == "") {
			return errUsage
		}
		return load(ctx, *archive, at)
	case "look", "login":
		server := flags.String("server", "http://127.0.0.1:8080", "URL of the server")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		return printSeen(ctx, *server, args[0] == "login", stdout)
	}
	return errUsage
}

func printSeen(ctx context.Context, server string, login bool, stdout io.Writer) error {
	c, err := client.New(server, client.Options{})
	if err != nil {
		return err
	}
	defer c.Close()
	if login {
		if err := logIn(ctx, c); err != nil {
			return err
		}
	}
	seen, err := look(ctx, c)
	if err != nil {
		return err
	}
	return json.NewEncoder(stdout).Encode(seen)
}

// load puts the content of an archive into a store.
func load(ctx context.Context, archive string, to place) error {
	if to.uri != "" {
		return loadDatabase(ctx, archive, to)
	}
	return unpack(archive, to.data)
}

// say prints for people. That it fails is nothing they could be told.
func say(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }

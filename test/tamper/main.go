// Command tamper damages an inbox behind the back of its store: it removes an entry, or writes it twice. It shows what "fanmail audit" is for.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/tamper/damage"
)

const usage = `tamper damages an inbox in the data folder of a server that is stopped, or in a MongoDB database.

  go run ./test/tamper -data DIR -user USER remove|double ID
  go run ./test/tamper -mongodb-uri URI -mongodb-database NAME -user USER remove|double ID

remove deletes the entry for a message, double writes it a second time. "fanmail audit" finds both.

`

func main() { os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr)) }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("tamper", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		say(stderr, usage)
		flags.PrintDefaults()
	}
	data := flags.String("data", "", "data `folder` of the server, or")
	uri := flags.String("mongodb-uri", "", "connection `string` of the MongoDB server")
	database := flags.String("mongodb-database", "fanmail", "`name` of the database on it")
	user := flags.String("user", "", "whose inbox (required)")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	}
	id, err := message.ParseID(flags.Arg(1))
	owner := message.UserID(*user)
	switch {
	case (*data == "") == (*uri == "") || flags.NArg() != 2:
		err = errors.New("give -data or -mongodb-uri, -user, remove or double, and the id of a message (see -help)")
	case err == nil:
		err = owner.Validate("user")
	}
	if err != nil {
		say(stderr, "tamper: %v\n", err)
		return 2
	}
	var store damage.Store = damage.Folder{Path: filepath.Join(*data, "store"), Files: vfs.Default}
	if *uri != "" {
		store = damage.Database{URI: *uri, Name: *database}
	}
	return tamper(ctx, store, owner, flags.Arg(0), id, stdout, stderr)
}

func tamper(ctx context.Context, store damage.Store, owner message.UserID, how string, id message.ID, stdout, stderr io.Writer) int {
	var err error
	switch how {
	case "remove":
		err = store.Remove(ctx, owner, id)
	case "double":
		err = store.Double(ctx, owner, id)
	default:
		say(stderr, "tamper: %q is not something that it does: give remove or double\n", how)
		return 2
	}
	if err != nil {
		say(stderr, "tamper: %v\n", err)
		return 1
	}
	say(stdout, "%s: %sd %s\n", owner, how, id)
	return 0
}

// say prints for people. That it fails is nothing they could be told.
func say(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }

// Command tamper damages records of a user behind the back of the store: entries, a bucket, or the record of the user. It shows what
// "fanmail audit" is for.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/tamper/damage"
)

const usage = `tamper damages records of a user in the data folder of a server that is stopped, or in a MongoDB database.

  go run ./test/tamper -data DIR -user USER remove|double ID, lose SEQUENCE, or spoil
  go run ./test/tamper -mongodb-uri URI -mongodb-database NAME -user USER remove|double ID, lose SEQUENCE, or spoil

remove deletes the entry for a message, double writes it a second time. lose deletes a bucket, spoil cuts the record of the user.
"fanmail audit" finds all of them. Only a backup brings a lost bucket or a spoilt record back.

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
	owner := message.UserID(*user)
	do, err := action(flags.Arg(0), flags.Arg(1))
	switch {
	case (*data == "") == (*uri == "") || flags.NArg() == 0:
		err = errors.New("give -data or -mongodb-uri, -user, and what to do (see -help)")
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
	if err := do(ctx, store, owner); err != nil {
		say(stderr, "tamper: %v\n", err)
		return 1
	}
	say(stdout, "%s: %s\n", owner, strings.Join(flags.Args(), " "))
	return 0
}

// action returns what damages the records of a user.
func action(how, what string) (do func(ctx context.Context, store damage.Store, owner message.UserID) error, err error) {
	switch how {
	case "remove", "double":
		id, err := message.ParseID(what)
		return func(ctx context.Context, store damage.Store, owner message.UserID) error {
			if how == "remove" {
				return store.Remove(ctx, owner, id)
			}
			return store.Double(ctx, owner, id)
		}, err
	case "lose":
		sequence, err := strconv.ParseUint(what, 10, 32)
		return func(ctx context.Context, store damage.Store, owner message.UserID) error {
			_, err := store.Lose(ctx, owner, uint32(sequence))
			return err
		}, err
	case "spoil":
		return func(ctx context.Context, store damage.Store, owner message.UserID) error {
			_, err := store.Spoil(ctx, owner)
			return err
		}, nil
	default:
		return nil, fmt.Errorf("%q is not something that it does: give remove, double, lose or spoil", how)
	}
}

// say prints for people. That it fails is nothing they could be told.
func say(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }

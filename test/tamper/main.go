// Command tamper damages an inbox in the data folder of a server that is stopped: it removes the record of an entry, or
// writes it twice. It shows what "fanmail audit" is for.
package main

import (
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

const usage = `tamper damages an inbox in the data folder of a server that is stopped.

  go run ./test/tamper -data DIR -user USER remove|double ID

remove deletes the record of the entry for a message, double writes it a second time. "fanmail audit" finds both.

`

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("tamper", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		say(stderr, usage)
		flags.PrintDefaults()
	}
	data := flags.String("data", "", "data `folder` of the server (required)")
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
	case *data == "" || flags.NArg() != 2:
		err = errors.New("give -data, -user, remove or double, and the id of a message (see -help)")
	case err == nil:
		err = owner.Validate("user")
	}
	if err != nil {
		say(stderr, "tamper: %v\n", err)
		return 2
	}
	return tamper(filepath.Join(*data, "store"), owner, flags.Arg(0), id, stdout, stderr)
}

func tamper(dir string, owner message.UserID, how string, id message.ID, stdout, stderr io.Writer) int {
	var err error
	switch how {
	case "remove":
		err = damage.Remove(dir, vfs.Default, owner, id)
	case "double":
		err = damage.Double(dir, vfs.Default, owner, id)
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

// Command publisher publishes a message with an idempotency key, and waits until the message is in every inbox.
//
// usage: publisher FROM TO KEY BODY
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

func main() {
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "usage: publisher FROM TO KEY BODY")
		os.Exit(2)
	}
	if err := publish(context.Background(), os.Args[1], os.Args[2], os.Args[3], os.Args[4]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func publish(ctx context.Context, from, to, key, body string) error {
	server := cmp.Or(os.Getenv("FANMAIL_PUBLISHER"), os.Getenv("FANMAIL_SERVER"), "http://127.0.0.1:8080")
	c, err := client.New(server, client.Options{Token: token()})
	if err != nil {
		return err
	}
	defer c.Close()

	// The client repeats the call while the server is busy or away, and waits as long as Retry-After says. The key makes that safe: the
	// server publishes the message once.
	draft := message.Draft{From: message.UserID(from), To: []message.UserID{message.UserID(to)}, Body: body}
	receipt, err := c.Publish(ctx, draft, key)
	if err != nil {
		if problem, ok := errors.AsType[*client.Problem](err); ok && problem.Type == client.ProblemKeyReused {
			return fmt.Errorf("%q is the key of another message: %w", key, err)
		}
		return err
	}

	// The message is on disk. Waiting is only for programs that need the result.
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	status, err := c.WaitDone(ctx, receipt.ID, 0)
	if err != nil {
		return err
	}
	fmt.Printf("%s: %d delivered, %d skipped\n", receipt.ID, status.Fanout.Delivered, status.Fanout.Skipped)
	return nil
}

// token returns a function that reads the token for each request, so that a replaced token needs no restart. It returns nil if the
// server asks for no token.
func token() func(context.Context) (string, error) {
	path := os.Getenv("FANMAIL_TOKEN_FILE")
	if path == "" {
		return nil
	}
	return func(context.Context) (string, error) {
		text, err := os.ReadFile(path) //nolint:gosec // the user names the file
		return strings.TrimSpace(string(text)), err
	}
}

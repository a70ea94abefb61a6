// Command reader logs a user in, prints their inbox page by page, and marks it as read. With --follow, it then prints messages as they arrive.
//
// usage: reader USER [--follow]
package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

func main() {
	follow := len(os.Args) == 3 && os.Args[2] == "--follow"
	if len(os.Args) != 2 && !follow {
		fmt.Fprintln(os.Stderr, "usage: reader USER [--follow]")
		os.Exit(2)
	}
	if err := read(context.Background(), message.UserID(os.Args[1]), follow); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func read(ctx context.Context, user message.UserID, follow bool) error {
	server := cmp.Or(os.Getenv("FANMAIL_REHYDRATOR"), os.Getenv("FANMAIL_SERVER"), "http://127.0.0.1:8080")
	c, err := client.New(server, client.Options{Token: token()})
	if err != nil {
		return err
	}
	defer c.Close()

	// A login rebuilds the inbox of a user who was away. After the wait the rebuild continues, and pages are right already.
	login, err := c.Login(ctx, user, client.DefaultLoginWait)
	if err != nil {
		return err
	}
	if login.State == client.Rehydrating {
		fmt.Printf("%s was %s: the inbox is still loading\n", user, login.Was)
	} else {
		fmt.Printf("%s was %s: %d recovered\n", user, login.Was, login.Recovered)
	}

	var cursor string
	options := client.InboxOptions{Limit: 2} // small, to show paging; the default is 50
	for number := 1; ; number++ {
		page, err := c.Inbox(ctx, user, options)
		if err != nil {
			return err
		}
		fmt.Printf("page %d, %d unread\n", number, page.Unread)
		for _, m := range page.Messages {
			fmt.Printf("%s: %s\n", m.From, m.Body)
		}
		if number == 1 {
			cursor = page.Cursor
		}
		if page.Next == "" {
			break
		}
		options.Before = page.Next
	}
	// What arrives meanwhile stays unread and unseen. Mark marks single messages.
	if err := c.Seen(ctx, user, cursor); err != nil {
		return err
	}
	if err := c.MarkAllRead(ctx, user, cursor); err != nil || !follow {
		return err
	}

	// A lost connection is made again, and each message comes once. Only an error ends the loop.
	for frame, err := range c.Events(ctx, user, cursor) {
		if err != nil {
			return err
		}
		for _, m := range frame.Messages {
			fmt.Printf("new, %d unseen: %s: %s\n", frame.Unseen, m.From, m.Body)
		}
	}
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

package client_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

func Example() {
	ctx := context.Background()
	server, stop, err := startServer(ctx) // elsewhere: the URL of "fanmail serve"
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = stop() }()

	c, err := client.New(server, client.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	if _, err := c.Login(ctx, "bob", client.DefaultLoginWait); err != nil {
		fmt.Println(err)
		return
	}
	draft := message.Draft{From: "ann", To: []message.UserID{"bob"}, Body: "Hello, Bob."}
	receipt, err := c.Publish(ctx, draft, "greeting-1")
	if err != nil {
		fmt.Println(err)
		return
	}
	status, err := c.WaitDone(ctx, receipt.ID, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(status.Fanout.State, status.Fanout.Delivered)
	for m, err := range c.InboxAll(ctx, "bob", client.InboxOptions{Peek: true}) {
		fmt.Println(m.From, m.Body, err)
	}
	// Output:
	// done 1
	// ann Hello, Bob. <nil>
}

// greet is the example in README.md.
func greet(ctx context.Context, server string) error {
	c, err := client.New(server, client.Options{})
	if err != nil {
		return err
	}
	defer c.Close()
	receipt, err := c.Publish(ctx, message.Draft{From: "ann", To: []message.UserID{"ben"}, Body: "Hello, Ben."}, "greeting-1")
	if err == nil {
		_, err = c.WaitDone(ctx, receipt.ID, 0) // until the message is in every inbox
	}
	return err
}

func Example_readme() {
	ctx := context.Background()
	server, stop, err := startServer(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = stop() }()

	fmt.Println(greet(ctx, server))
	// Output: <nil>
}

// A user who returns finds the missed messages in their inbox.
func ExampleClient_Login() {
	ctx := context.Background()
	server, stop, err := startServer(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = stop() }()

	c, err := client.New(server, client.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	draft := message.Draft{From: "ann", To: []message.UserID{"bob"}, Body: "Welcome, Bob."}
	if _, err := c.Publish(ctx, draft, ""); err != nil {
		fmt.Println(err)
		return
	}
	login, err := c.Login(ctx, "bob", client.DefaultLoginWait)
	if err != nil {
		fmt.Println(err)
		return
	}
	if login.State == client.Rehydrating {
		fmt.Println("Bob's inbox is still loading: his newest messages can be read, and he need not wait")
		return
	}
	fmt.Println("Bob is", login.Was, "and has missed", login.Recovered, "message")
	// Output: Bob is new and has missed 1 message
}

func ExampleProblem() {
	ctx := context.Background()
	server, stop, err := startServer(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = stop() }()

	c, err := client.New(server, client.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	_, err = c.Publish(ctx, message.Draft{From: "ann", Body: "Is anybody there?"}, "")
	if problem, ok := errors.AsType[*client.Problem](err); ok {
		fmt.Println(problem.Type, problem.Field)
		fmt.Println(problem)
	}
	// Output:
	// urn:fanmail:problem:invalid to
	// to is empty: name recipients or topics, or set audience to "followers" (422 Unprocessable Entity)
}

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/fanmail/fanmail/bench/mongolayouts"
	"github.com/fanmail/fanmail/bench/pebblelayouts"
	"github.com/fanmail/fanmail/internal/bench"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// order tells another process to send messages in a layout that exists.
type order struct {
	Layout string
	// Embedded or MongoDB says where the layout is.
	Embedded   *pebblelayouts.Options `json:",omitempty"`
	MongoDB    *mongolayouts.Options  `json:",omitempty"`
	Recipients int
	Messages   []ordered
}

type ordered struct {
	ID   message.ID
	Body string
}

const (
	// halfWay is the line that the process prints when it has sent the last message to half of the recipients.
	halfWay = "half way"
	// sendParts is the number of calls in which it sends the last message.
	sendParts = 10
)

// senderCommand is the command that SendLayout serves.
const senderCommand = "sender"

// sendAndKill starts a process of this program that sends messages. It kills the process half way through the last one.
func (x *comparing) sendAndKill(ctx context.Context, l *compared) (err error) {
	o := l.order
	o.Recipients = len(x.recipients)
	for _, e := range x.byChild() {
		o.Messages = append(o.Messages, ordered{e.ID, e.Body})
	}
	what, err := json.Marshal(o) // the URI may have a password: it goes through the pipe
	if err != nil {
		return fmt.Errorf("start a sender: %w", err)
	}
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("start a sender: %w", err)
	}
	var complaints bytes.Buffer
	sender := exec.CommandContext(ctx, program, senderCommand) //nolint:gosec // it is this program
	sender.Stderr = &complaints
	in, err := sender.StdinPipe()
	if err != nil {
		return fmt.Errorf("start a sender: %w", err)
	}
	out, err := sender.StdoutPipe()
	if err != nil {
		return fmt.Errorf("start a sender: %w", err)
	}
	if err := sender.Start(); err != nil {
		return fmt.Errorf("start a sender: %w", err)
	}
	_, writeErr := in.Write(what)
	line, readErr := bufio.NewReader(out).ReadString('\n')
	_ = sender.Process.Kill() // fails only if it has ended, which Wait tells
	ended := sender.Wait()
	if line != halfWay+"\n" {
		return fmt.Errorf("the sender ended before it was half way: %w: %s", errors.Join(writeErr, readErr, ended), bytes.TrimSpace(complaints.Bytes()))
	}
	var exit *exec.ExitError
	if status, is := exitStatus(ended, &exit); !is || status.Signal() != syscall.SIGKILL {
		return fmt.Errorf("the sender was not killed, it ended with %d", sender.ProcessState.ExitCode())
	}
	return nil
}

func exitStatus(err error, exit **exec.ExitError) (syscall.WaitStatus, bool) {
	if !errors.As(err, exit) {
		return 0, false
	}
	status, is := (*exit).Sys().(syscall.WaitStatus)
	return status, is && status.Signaled()
}

// SendLayout is the process that sendAndKill starts. It reads an order and carries it out, says when it is half way through the last message, and does
// not return before in has ended.
func SendLayout(ctx context.Context, in io.Reader, out io.Writer, now func() time.Time) (err error) {
	var o order
	if err := json.NewDecoder(in).Decode(&o); err != nil {
		return fmt.Errorf("read an order: %w", err)
	}
	l, err := o.open(ctx, now)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close(context.WithoutCancel(ctx))) }()
	recipients := bench.Users("user", 0, o.Recipients)
	for i, m := range o.Messages {
		e := bucket.Entry{ID: m.ID, From: layoutAuthor, Body: m.Body}
		parts, half := [][]message.UserID{recipients}, -1
		if i == len(o.Messages)-1 {
			if o.Layout != "on-read" { // which sends by one write
				parts = slices.Collect(slices.Chunk(recipients, (len(recipients)+sendParts-1)/sendParts))
			}
			half = len(parts) / 2
		}
		for n, part := range parts {
			if n == half {
				if _, err := fmt.Fprintln(out, halfWay); err != nil {
					return fmt.Errorf("say that it is half way: %w", err)
				}
			}
			if _, err := l.Send(ctx, e, part); err != nil {
				return err
			}
		}
	}
	_, err = io.Copy(io.Discard, in)
	return err
}

// open opens the layout that exists.
func (o order) open(ctx context.Context, now func() time.Time) (layoutOf, error) {
	if o.MongoDB != nil {
		opts := *o.MongoDB
		opts.Existing, opts.Now, opts.Logger = true, now, zerolog.Nop()
		return mongolayouts.Open(ctx, o.Layout, opts)
	}
	if o.Embedded == nil {
		return nil, errors.New("the order names no store")
	}
	opts := *o.Embedded
	opts.Now, opts.Logger = now, zerolog.Nop()
	return pebblelayouts.Open(ctx, o.Layout, opts)
}

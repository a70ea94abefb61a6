package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// child is a process that answers lines of JSON with lines of JSON. It is killed when its context ends.
type child struct {
	name  string
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines *bufio.Scanner
}

// startChild starts a process. What it writes to standard error goes to log. It waits for the process's first line.
func startChild(ctx context.Context, log io.Writer, name string, command ...string) (*child, error) {
	c := &child{name: name, cmd: exec.CommandContext(ctx, command[0], command[1:]...)}
	c.cmd.Stderr = log
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	c.lines = bufio.NewScanner(stdout)
	c.lines.Buffer(nil, 1<<20)
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if err := c.receive(new(ready)); err != nil {
		_ = c.end()
		return nil, err
	}
	return c, nil
}

// ready is the first line of a child.
type ready struct {
	Ready bool `json:"ready"`
}

// send writes a line.
func (c *child) send(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if _, err := c.stdin.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	return nil
}

// receive waits for the next line.
func (c *child) receive(v any) error {
	if !c.lines.Scan() {
		return fmt.Errorf("%s ended: %w", c.name, cmpErr(c.lines.Err(), io.ErrUnexpectedEOF))
	}
	if err := json.Unmarshal(c.lines.Bytes(), v); err != nil {
		return fmt.Errorf("%s: %q: %w", c.name, c.lines.Text(), err)
	}
	return nil
}

// end closes the standard input of the process and waits until it has ended.
func (c *child) end() error {
	_ = c.stdin.Close()
	for c.lines.Scan() {
		continue // so that the process can write
	}
	if err := c.cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	return nil
}

// cmpErr returns the first error that is not nil.
func cmpErr(first, second error) error {
	if first != nil {
		return first
	}
	return second
}

// parent is the other end: the process that has started this one.
type parent struct {
	lines *bufio.Scanner
	out   *json.Encoder
}

// newParent takes standard input and output for the lines. Libraries that write to os.Stdout write to standard error from now on.
func newParent() *parent {
	p := &parent{lines: bufio.NewScanner(os.Stdin), out: json.NewEncoder(os.Stdout)}
	p.lines.Buffer(nil, 1<<20)
	os.Stdout = os.Stderr
	return p
}

// send writes a line.
func (p *parent) send(v any) error { return p.out.Encode(v) }

// receive waits for the next line. It reports false if the parent has closed the input.
func (p *parent) receive(v any) (bool, error) {
	if !p.lines.Scan() {
		return false, p.lines.Err()
	}
	return true, json.Unmarshal(p.lines.Bytes(), v)
}

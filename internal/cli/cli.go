package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// Exit codes.
const (
	// ExitDone says that the command did what it was asked for.
	ExitDone = 0
	// ExitFailed says that it did not, or not all of it.
	ExitFailed = 1
	// ExitUsage says that it was asked for something that does not exist or makes no sense.
	ExitUsage = 2
)

// Process is what a command has from the process it runs in.
type Process struct {
	// Args are the arguments without the name of the program.
	Args []string
	// Env holds NAME=value pairs (os.Environ()).
	Env    []string
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	Now    func() time.Time
	// Width returns how many columns the terminal behind a writer has, or 0 if there is none. It is
	// TerminalWidth but in tests.
	Width func(io.Writer) int
}

// unknownWidth is taken for the width of a terminal that does not tell it.
const unknownWidth = 80

// TerminalWidth returns how many columns the terminal behind w has, or 0 if w is not a terminal.
func TerminalWidth(w io.Writer) int {
	file, ok := w.(*os.File)
	if !ok {
		return 0
	}
	fd := int(file.Fd())
	if !term.IsTerminal(fd) {
		return 0
	}
	if width, _, err := term.GetSize(fd); err == nil && width > 0 {
		return width
	}
	return unknownWidth
}

// getenv returns the value of an environment variable, or nothing.
func (p Process) getenv(name string) string {
	for _, pair := range p.Env {
		if value, found := strings.CutPrefix(pair, name+"="); found {
			return value
		}
	}
	return ""
}

// usageError is an error that lies in the command line.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// Main runs a command line and returns its exit code. When ctx ends, the command ends cleanly.
func Main(ctx context.Context, p Process) int {
	return run(ctx, p, newRoot(p)) //nolint:contextcheck // the command gets ctx
}

func run(ctx context.Context, p Process, root *cobra.Command) int {
	root.SetArgs(p.Args)
	root.SetIn(p.Stdin)
	root.SetOut(p.Stdout)
	root.SetErr(p.Stderr)
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return ExitDone
	}
	message, code := err.Error(), ExitFailed
	var usage *usageError
	switch {
	case errors.As(err, &usage):
		message, code = fmt.Sprintf("%s (see '%s --help')", message, command.CommandPath()), ExitUsage
	case ctx.Err() != nil:
		message = "interrupted: " + message
	}
	printError(p.Stderr, root.Name(), message)
	return code
}

// printError writes one line. An error of several lines has one problem on each.
func printError(w io.Writer, program, message string) {
	lines := strings.Split(strings.TrimSpace(message), "\n")
	fmt.Fprintln(w, program+": "+printable(strings.Join(lines, "; "))) //nolint:errcheck // nobody is left to tell
}

// Package program has what the programs share: the process that a command runs in, its exit codes and usage errors, the settings
// of a server, and the program of a single role.
package program

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// Exit codes.
const (
	// ExitDone means that the command succeeded.
	ExitDone = 0
	// ExitFailed means that the command failed, in whole or in part.
	ExitFailed = 1
	// ExitUsage means that the command line or the configuration is wrong.
	ExitUsage = 2
)

// Process is the part of the operating system process that a command uses.
type Process struct {
	// Args are the arguments without the name of the program.
	Args []string
	// Env holds NAME=value pairs (os.Environ()).
	Env    []string
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	Now    func() time.Time
	// Width returns the number of columns of the terminal behind a writer, or 0 if it is no terminal. Programs use TerminalWidth.
	Width func(io.Writer) int
}

// unknownWidth is the assumed width of a terminal that does not report its width.
const unknownWidth = 80

// TerminalWidth returns the number of columns of the terminal behind w, or 0 if w is no terminal.
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

// Getenv returns the value of an environment variable, or "" if it is not set.
func (p Process) Getenv(name string) string {
	for _, pair := range p.Env {
		if value, found := strings.CutPrefix(pair, name+"="); found {
			return value
		}
	}
	return ""
}

// usageError is an error in the command line or in the configuration.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// Usage marks an error as an error in the command line or in the configuration. Run prints it with a hint to --help, and returns
// ExitUsage.
func Usage(err error) error { return &usageError{err} }

// Usagef returns a new error that is marked by Usage.
func Usagef(format string, args ...any) error { return Usage(fmt.Errorf(format, args...)) }

// Run runs the command line of a process and returns its exit code. When ctx ends, the command ends cleanly.
func Run(ctx context.Context, p Process, root *cobra.Command) int {
	root.SetArgs(p.Args)
	root.SetIn(p.Stdin)
	root.SetOut(p.Stdout)
	root.SetErr(p.Stderr)
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return ExitDone
	}
	message, code := err.Error(), ExitFailed
	if hint := advice(p, command, err); hint != "" {
		message += "; " + hint
	}
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

// printError writes an error as one line. A message of several lines has one problem per line.
func printError(w io.Writer, program, message string) {
	lines := strings.Split(strings.TrimSpace(message), "\n")
	fmt.Fprintln(w, program+": "+Printable(strings.Join(lines, "; "))) //nolint:errcheck // there is no other place for the error
}

// Exactly returns a check that a command has the named arguments, no more and no fewer.
func Exactly(names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return Usagef("%s is missing", names[len(args)])
		case len(args) > len(names):
			return Usagef("unexpected argument %q", args[len(names)])
		}
		return nil
	}
}

// AtMost returns a check that a command has the named arguments, or only the first of them, or none.
func AtMost(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		return Exactly(names[:min(len(args), len(names))]...)(cmd, args)
	}
}

// Version returns the version of the module that the binary was built from.
func Version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// Package telemetry sets up the log, the metrics and the traces of a process.
package telemetry

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/term"
)

// The formats of a log.
const (
	// FormatAuto is FormatConsole on a terminal and FormatJSON elsewhere.
	FormatAuto = "auto"
	// FormatConsole is text for people.
	FormatConsole = "console"
	// FormatJSON is one JSON object per line.
	FormatJSON = "json"
)

// timeFormat is RFC 3339 with milliseconds, the precision of all times in Fanmail.
const timeFormat = "2006-01-02T15:04:05.000Z07:00"

// LogOptions configures a log.
type LogOptions struct {
	// Level is the least severe level in the log: debug, info, warn or error.
	Level string
	// Format is one of the formats above.
	Format string
	// Writer receives the lines. It is usually os.Stderr, because commands print their results to os.Stdout.
	Writer io.Writer
	// Now is the clock for the time of each line.
	Now func() time.Time
}

// NewLogger returns a logger that adds the time in UTC to every line. It returns an error for an unknown level or format. The logger is
// safe for concurrent use.
func NewLogger(opts LogOptions) (zerolog.Logger, error) {
	level, err := zerolog.ParseLevel(opts.Level)
	if err != nil || opts.Level == "" {
		return zerolog.Nop(), fmt.Errorf("log level %q is unknown", opts.Level)
	}
	terminal := isTerminal(opts.Writer)
	writer := opts.Writer
	switch opts.Format {
	case FormatJSON:
	case FormatConsole:
		writer = console(writer, terminal)
	case FormatAuto:
		if terminal {
			writer = console(writer, terminal)
		}
	default:
		return zerolog.Nop(), fmt.Errorf("log format %q is unknown", opts.Format)
	}
	stamp := zerolog.HookFunc(func(e *zerolog.Event, _ zerolog.Level, _ string) {
		e.Str(zerolog.TimestampFieldName, opts.Now().UTC().Format(timeFormat))
	})
	return zerolog.New(zerolog.SyncWriter(writer)).Level(level).Hook(stamp), nil
}

func console(w io.Writer, colour bool) io.Writer {
	return zerolog.ConsoleWriter{Out: w, NoColor: !colour, TimeFormat: "15:04:05.000", TimeLocation: time.UTC}
}

func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

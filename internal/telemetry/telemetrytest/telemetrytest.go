// Package telemetrytest has logs for tests: a logger that writes to the output of the test, and a buffer that the test reads.
package telemetrytest

import (
	"bytes"
	"sync"
	"testing"

	"github.com/rs/zerolog"
)

// Logger returns a logger that writes every level with t.Log. When tb runs its cleanup, the logger closes and
// drops all later lines, because t.Log would panic after the test and hide its result.
func Logger(tb testing.TB) zerolog.Logger {
	tb.Helper()
	w := &writer{tb: tb}
	tb.Cleanup(w.close)
	return zerolog.New(zerolog.ConsoleWriter{Out: w, NoColor: true, PartsExclude: []string{zerolog.TimestampFieldName}})
}

type writer struct {
	mu     sync.Mutex
	tb     testing.TB
	closed bool
}

func (w *writer) Write(line []byte) (int, error) {
	w.tb.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.tb.Log(string(bytes.TrimRight(line, "\n")))
	}
	return len(line), nil
}

func (w *writer) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
}

// Package telemetrytest lets what is under test log to the output of the test, or into a buffer that the test looks at.
package telemetrytest

import (
	"bytes"
	"sync"
	"testing"

	"github.com/rs/zerolog"
)

// Logger returns a logger that writes every level with t.Log. What comes after the test has ended, its cleanup
// included, is dropped: t.Log would panic, and hide what the test found.
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

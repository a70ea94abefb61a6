// Package panics makes a panic an error of the work that panicked. The process and its other work continue.
//
// Each goroutine recovers by itself, because a panic that leaves a goroutine ends the process. The function that knows the work
// records the error: the log gets the stack and the ids, and a metric counts the panic.
//
// Some failures end the process: those of the runtime, such as concurrent writes to a map, and those after which the embedded store cannot
// continue.
package panics

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/rs/zerolog"
)

// Error is a panic. It does not unwrap to a panic value that is an error, because nothing that the value says about the work is
// sure.
type Error struct {
	// Value is the value that panic was called with.
	Value any
	// Stack is the stack of the goroutine that panicked.
	Stack []byte

	recorded atomic.Bool
}

// Error returns the value without the stack.
func (e *Error) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Catch recovers from a panic and stores it in err as an *Error. Defer it directly: defer panics.Catch(&err).
func Catch(err *error) {
	if value := recover(); value != nil {
		*err = &Error{Value: value, Stack: debug.Stack()}
	}
}

// Do calls do and returns its error, or its panic as an *Error.
func Do(do func() error) (err error) {
	defer Catch(&err)
	return do()
}

// Is reports whether an error wraps a panic.
func Is(err error) bool {
	_, ok := errors.AsType[*Error](err)
	return ok
}

// Recorder logs and counts the panics of one place. It is safe for concurrent use.
type Recorder struct {
	logger zerolog.Logger
	place  string
	count  prometheus.Counter
}

// NewRecorder returns a Recorder. Only one Recorder of a registry may have a place. A nil registerer registers no metric.
func NewRecorder(logger zerolog.Logger, registerer prometheus.Registerer, place string) *Recorder {
	return &Recorder{logger: logger, place: place, count: promauto.With(registerer).NewCounter(prometheus.CounterOpts{
		Name: "fanmail_panics_total", Help: "Panics of the code that were recovered, and have failed only the work at hand.",
		ConstLabels: prometheus.Labels{"place": place},
	})}
}

// Count counts a panic that the caller logs.
func (r *Recorder) Count() { r.count.Inc() }

// Record logs and counts the panic that an error wraps. The function describe adds the ids of the work to the log line. Record does
// nothing if the error wraps no panic, or one that is recorded already.
func (r *Recorder) Record(err error, describe func(*zerolog.Event) *zerolog.Event) {
	e, ok := errors.AsType[*Error](err)
	if !ok || e.recorded.Swap(true) {
		return
	}
	r.Count()
	describe(r.logger.Error().Err(err).Str("place", r.place).Bytes("stack", e.Stack)).Msg("the code panicked: only the work at hand has failed")
}

package startstop

import (
	"context"
	"errors"
)

var (
	// ErrRunning is returned by Start of a service that was started before.
	ErrRunning = errors.New("service is running already")
	// ErrStopped is returned by Start of a service that was stopped before.
	ErrStopped = errors.New("service was stopped")
	// ErrCutShort is returned by Stop when work in flight did not finish in time.
	ErrCutShort = errors.New("work in flight was cut short")
)

// Service is something that runs from Start to Stop. The package comment tells what holds between the two. All
// methods are safe for concurrent use.
type Service interface {
	// Start returns when the service is running, or with an error, after which it is not running and cannot be
	// started again unless ctx had ended before Start was called.
	Start(ctx context.Context) error
	// Stop returns when nothing of the service is running any more. It lets work in flight finish until ctx ends, and
	// returns ErrCutShort if that was not enough.
	Stop(ctx context.Context) error
}

// state is where a service is on its way.
type state int

const (
	fresh state = iota
	running
	stopped
)

// start tells whether a service in this state can be started.
func (s state) start(ctx context.Context) error {
	switch s {
	case running:
		return ErrRunning
	case stopped:
		return ErrStopped
	default:
		return ctx.Err()
	}
}

package startstop

import (
	"context"
	"errors"
)

var (
	// ErrRunning means that Start was called on a running service.
	ErrRunning = errors.New("service is running already")
	// ErrStopped means that Start was called on a stopped service.
	ErrStopped = errors.New("service was stopped")
	// ErrCutShort means that the context of Stop ended before the work in flight was finished.
	ErrCutShort = errors.New("work in flight was cut short")
)

// Service runs from Start to Stop; see the package comment. All methods are safe for concurrent use.
type Service interface {
	// Start returns when the service is running. After an error the service is not running, and cannot be started again, except if
	// ctx had ended before the call.
	Start(ctx context.Context) error
	// Stop returns when all goroutines of the service have returned. Work in flight may finish until ctx ends; after that Stop aborts
	// it and returns ErrCutShort.
	Stop(ctx context.Context) error
}

// state is the state of a service.
type state int

const (
	fresh state = iota
	running
	stopped
)

// start returns nil if a service in this state can be started.
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

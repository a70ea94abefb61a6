package startstop

import (
	"context"
	"fmt"
	"sync"

	"github.com/fanmail/fanmail/internal/panics"
)

// Loop is a function that begins new work until intake ends. Then it finishes the work in flight, or aborts it when work ends. It may
// return earlier. The package comment explains the two contexts.
type Loop func(intake, work context.Context)

// Runner is a Service that runs each of its loops in a goroutine. A loop that panics runs again: see Keep.
type Runner struct {
	name   string
	panics *panics.Recorder
	loops  []Loop

	mu         sync.Mutex
	state      state
	stopIntake context.CancelFunc
	stopWork   context.CancelFunc
	// cutShort is the reason why work was aborted, or nil.
	cutShort error
	// done is closed when all loops have returned.
	done chan struct{}
}

// NewRunner returns a Runner of the loops. The name stands in the log if a loop panics.
func NewRunner(name string, recorder *panics.Recorder, loops ...Loop) *Runner {
	return &Runner{name: name, panics: recorder, loops: loops, done: make(chan struct{})}
}

// Start starts the loops.
func (r *Runner) Start(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.state.start(ctx); err != nil {
		return err
	}
	r.state = running
	work, stopWork := context.WithCancel(context.WithoutCancel(ctx))
	intake, stopIntake := context.WithCancel(work)
	r.stopIntake, r.stopWork = stopIntake, stopWork

	var loops sync.WaitGroup
	for _, loop := range r.loops {
		loops.Go(func() { Keep(intake, work, r.panics, r.name, loop) })
	}
	go func() {
		defer close(r.done)
		loops.Wait()
		stopWork()
	}()
	return nil
}

// Stop ends intake and waits for the loops. If several goroutines call Stop, the first context that ends aborts the work, and all
// calls return ErrCutShort.
func (r *Runner) Stop(ctx context.Context) error {
	if !r.stopIntaking() {
		return nil
	}
	select {
	case <-r.done:
	case <-ctx.Done():
		r.cutWork(context.Cause(ctx))
		<-r.done
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cutShort != nil {
		return fmt.Errorf("%w: %w", ErrCutShort, r.cutShort)
	}
	return nil
}

// stopIntaking ends intake. It reports whether the loops were started.
func (r *Runner) stopIntaking() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state = stopped
	if r.stopIntake == nil {
		return false
	}
	r.stopIntake()
	return true
}

// cutWork ends work, unless all loops have returned already.
func (r *Runner) cutWork(cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.done:
	default:
		r.cutShort = cause
		r.stopWork()
	}
}

package rig

import (
	"context"
	"errors"
	"sync"
)

var (
	// ErrInjected is what an operation returns that was made to fail.
	ErrInjected = errors.New("injected failure")
	// ErrDead is what every operation of an actor returns that has died. It takes no effect any more.
	ErrDead = errors.New("whoever did this is dead")
)

// Fault is what befalls an actor at one of its operations.
type Fault int

const (
	// None lets the operation succeed.
	None Fault = iota
	// StallBefore stops the actor before the operation takes effect.
	StallBefore
	// StallAfter stops the actor when the operation has taken effect.
	StallAfter
	// FailBefore makes the operation fail without taking effect.
	FailBefore
	// FailAfter makes the operation fail although it has taken effect.
	FailAfter
	// DieBefore ends the actor before the operation takes effect. Nothing that it does takes effect any more.
	DieBefore
	// DieAfter ends the actor when the operation has taken effect.
	DieAfter
	// PanicBefore makes the operation panic without taking effect.
	PanicBefore
	// PanicAfter makes the operation panic when it has taken effect.
	PanicAfter
)

// Panicking is the value that an operation panics with that was made to panic.
const Panicking = "injected panic"

// Actor is one call of a stage. Its operations are carried out one at a time, so that nothing happens while a
// test has stalled it.
type Actor struct {
	// Value belongs to the caller that started the actor.
	Value any

	mu    sync.Mutex // held during an operation, and while stalled
	fault Fault
	at    string // the operations that count, or "" for all
	after int    // how many of them go well before the fault
	dead  bool
	// commands counts those of the operation that is under way.
	commands int
	trace    []string
	cancel   context.CancelFunc

	stalled chan struct{}
	resume  chan struct{}
	done    chan struct{}
	err     error
}

type actorKey struct{}

// Start runs do as an actor that the fault befalls at the operation after so many, and returns when it has finished,
// died or stalled.
func Start(ctx context.Context, fault Fault, after int, do func(ctx context.Context) error) *Actor {
	return StartAt(ctx, fault, "", after, do)
}

// StartAt is Start for a fault that befalls the operation of that name after so many others of that name.
func StartAt(ctx context.Context, fault Fault, operation string, after int, do func(ctx context.Context) error) *Actor {
	a := &Actor{
		fault: fault, at: operation, after: after,
		stalled: make(chan struct{}), resume: make(chan struct{}), done: make(chan struct{}),
	}
	ctx, a.cancel = context.WithCancel(context.WithValue(ctx, actorKey{}, a))
	go func() {
		defer close(a.done)
		defer a.cancel()
		a.err = do(ctx)
	}()
	a.wait()
	return a
}

func (a *Actor) wait() {
	select {
	case <-a.stalled:
	case <-a.done:
	}
}

// Finished reports whether the actor has ended, dead or alive.
func (a *Actor) Finished() bool {
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

// Err returns how a finished actor ended.
func (a *Actor) Err() error { return a.err }

// Died reports whether a fault or Kill ended the actor.
func (a *Actor) Died() bool { return a.dead }

// Unhurt reports whether a finished actor ended before the operation that its fault was to befall.
func (a *Actor) Unhurt() bool { return a.fault != None }

// Trace returns the operations that took effect, in their order.
func (a *Actor) Trace() []string { return a.trace }

// Resume lets a stalled actor go on, with a fault ahead of it, until it has finished, died or stalled again. For one that
// has finished it does nothing.
func (a *Actor) Resume(fault Fault, after int) {
	if a.Finished() {
		return
	}
	a.fault, a.at, a.after = fault, "", after
	a.resume <- struct{}{}
	a.wait()
}

// Kill lets a stalled actor die where it stands.
func (a *Actor) Kill() {
	if a.Finished() {
		return
	}
	a.die()
	a.resume <- struct{}{}
	a.wait()
}

func (a *Actor) die() {
	a.dead = true
	a.cancel()
}

func (a *Actor) stall() {
	a.stalled <- struct{}{}
	<-a.resume
}

// next returns the fault that befalls an operation, the next one.
func (a *Actor) next(operation string) Fault {
	if a.fault == None || a.at != "" && a.at != operation {
		return None
	}
	if a.after > 0 {
		a.after--
		return None
	}
	fault := a.fault
	a.fault = None
	return fault
}

// through carries out an operation of the actor that ctx belongs to, with what befalls it. Nothing befalls what
// is not done by an actor.
func through[T any](ctx context.Context, operation string, do func() (T, error)) (T, error) {
	a, ok := ctx.Value(actorKey{}).(*Actor)
	if !ok {
		return do()
	}
	return pass(a, operation, do)
}

func pass[T any](a *Actor, operation string, do func() (T, error)) (T, error) {
	var none T
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.dead {
		return none, ErrDead
	}
	a.commands = 0
	fault := a.next(operation)
	switch fault {
	case StallBefore:
		a.stall()
	case FailBefore:
		return none, ErrInjected
	case DieBefore:
		a.die()
	case PanicBefore:
		panic(Panicking)
	default:
	}
	if a.dead {
		return none, ErrDead
	}
	result, err := do()
	switch {
	case a.dead: // in the midst of it
		return none, ErrDead
	case err != nil:
		return none, err
	}
	a.trace = append(a.trace, operation)
	switch fault {
	case StallAfter:
		a.stall()
	case FailAfter:
		return none, ErrInjected
	case DieAfter:
		a.die()
	case PanicAfter:
		panic(Panicking)
	default:
	}
	if a.dead {
		return none, ErrDead
	}
	return result, nil
}

// run is through for operations without a result.
func run(ctx context.Context, operation string, do func() error) error {
	_, err := through(ctx, operation, func() (struct{}, error) { return struct{}{}, do() })
	return err
}

// command is called before each of the commands that an operation consists of, one after the other. What befalls the actor that
// ctx belongs to in the midst of the operation befalls it here: before any but the first.
func command(ctx context.Context) {
	a, ok := ctx.Value(actorKey{}).(*Actor)
	if !ok {
		return
	}
	if a.commands++; a.commands == 1 {
		return
	}
	switch a.next("command") {
	case StallBefore:
		a.stall()
	case DieBefore:
		a.die()
	default:
	}
}

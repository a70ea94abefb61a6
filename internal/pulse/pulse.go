// Package pulse shows whether the calls of the stores return. A worker that holds a task gives it up when none returns for too long.
package pulse

import (
	"context"
	"sync/atomic"
)

// Pulse counts the calls that have returned for one piece of work. The zero Pulse is ready to use. A Pulse is safe for concurrent use.
type Pulse struct{ beats atomic.Uint64 }

type key struct{}

// Of returns a context whose calls count for p, instead of for the Pulse of ctx.
func (p *Pulse) Of(ctx context.Context) context.Context { return context.WithValue(ctx, key{}, p) }

// Beats returns how many calls have returned, with or without an error.
func (p *Pulse) Beats() uint64 { return p.beats.Load() }

// Beat counts a call that returns. Stores call it with the context of the call. Without a Pulse in ctx it does nothing.
func Beat(ctx context.Context) {
	if p, ok := ctx.Value(key{}).(*Pulse); ok {
		p.beats.Add(1)
	}
}

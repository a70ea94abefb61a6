package progress

import (
	"time"

	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
)

// still is how long a plan has not moved when its message counts as waiting. A batch takes less.
const still = 5 * time.Second

// Waits says what messages that are not done wait for.
type Waits struct {
	// Lease is after which time the bus hands out the task of a lost worker again.
	Lease time.Duration
	// ResumeAfter is after which time a message that does not move is routed again.
	ResumeAfter time.Duration
	// Room reports whether the store has room for deliveries of the bulk lane. Nil means always.
	Room func() bool
	// Workers reports whether a fan-out worker runs. Nil means always.
	Workers func() bool
}

// None reports whether no fan-out worker runs.
func (w Waits) None() bool { return w.Workers != nil && !w.Workers() }

// For returns what a fan-out waits for, or "" if it moves; and about until when, or zero. Without a plan, f is zero. Fan-out workers are
// routers, too.
func (w Waits) For(f Fanout, now time.Time) (what message.WaitingFor, until time.Time) {
	open, begun, noted := 0, false, false
	for _, s := range f.Scans {
		if s.Open() {
			open++
		}
		begun, noted = begun || s.Joined, noted || s.Open() && s.Arc.Noted
	}
	moves := now.Sub(f.Moved) < still
	switch {
	case f.ID.IsZero() && !w.None():
		return message.WaitingForRouter, time.Time{}
	case f.ID.IsZero():
		return message.WaitingForWorker, time.Time{}
	case f.Done():
		return "", time.Time{}
	case open == 0:
		return message.WaitingForDeadLetter, time.Time{}
	case !moves && w.None():
		return message.WaitingForWorker, time.Time{}
	case noted:
		return message.WaitingForStore, time.Time{}
	case moves:
		return "", time.Time{}
	case f.Lane == string(event.Bulk) && w.Room != nil && !w.Room():
		return message.WaitingForRoom, time.Time{}
	case !begun:
		return message.WaitingForWorker, time.Time{}
	}
	for _, after := range []time.Duration{w.Lease, w.ResumeAfter} {
		if until = f.Moved.Add(after); until.After(now) {
			return message.WaitingForLostWorker, until
		}
	}
	return message.WaitingForLostWorker, time.Time{}
}

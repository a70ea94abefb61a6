// Package tally counts what a process has done since its start.
package tally

import (
	"time"

	"github.com/fanmail/fanmail/pkg/event"
)

// Counters say what a process, or several, have done. They only rise.
type Counters struct {
	// Accepted are messages that publish has stored.
	Accepted int64
	// Delivered are entries that fan-out has appended to inboxes, each counted once. DeliveredBytes are the bytes of their messages.
	Delivered, DeliveredBytes int64
	// Skipped are copies that were not written.
	Skipped Skips
	// RebuiltUsers are rehydrations that have ended, and RebuiltMessages the entries that they have appended.
	RebuiltUsers, RebuiltMessages int64
	// Finished are the tasks that have left the queue of a lane for good. In the direct lane, they are messages.
	Finished Lanes
	// Away are copies, delivered to known users or skipped as dormant, by how long the recipient had not looked when the message was sent.
	// Returned are returns of users by how long they had not looked. See Ends.
	Away, Returned Steps
}

// Skips are copies that were not written.
type Skips struct {
	// Dormant copies were left to the rehydration of a user who had not looked for too long, NeverSeen ones of a user without a record.
	Dormant, NeverSeen int64
	// Blocked recipients had no part in a message, because the sender was blocked.
	Blocked int64
	// Bytes are those of the messages of Dormant and NeverSeen.
	Bytes int64
}

// Lanes has a number for each lane.
type Lanes struct{ Direct, Medium, Bulk int64 }

// In returns the number of a lane.
func (l *Lanes) In(lane event.Lane) *int64 {
	switch lane {
	case event.Direct:
		return &l.Direct
	case event.Medium:
		return &l.Medium
	default:
		return &l.Bulk
	}
}

const (
	steps   = 12
	numbers = 12 + 2*steps
)

// Steps has a number for each step of Ends.
type Steps [steps]int64

// Ends are the ends of the steps of Steps. The last step has no end: it has also who never looked.
var Ends = [steps - 1]time.Duration{
	time.Hour, 6 * time.Hour, day, 2 * day, 4 * day, 7 * day, 14 * day, 30 * day, 60 * day, 90 * day, 180 * day,
}

const day = 24 * time.Hour

// Step returns the step of the time since a user last looked, which is zero if never. An end belongs to the step that it ends.
func Step(last, now time.Time) int {
	if last.IsZero() {
		return steps - 1
	}
	away := now.Sub(last)
	for i, end := range Ends {
		if away <= end {
			return i
		}
	}
	return steps - 1
}

// numbersOf returns all numbers. Stores record them in this order: append new ones at the end.
func numbersOf(c *Counters) (all [numbers]*int64) {
	first := [numbers - 2*steps]*int64{
		&c.Accepted, &c.Delivered, &c.DeliveredBytes, &c.Skipped.Dormant, &c.Skipped.NeverSeen, &c.Skipped.Blocked, &c.Skipped.Bytes,
		&c.RebuiltUsers, &c.RebuiltMessages, &c.Finished.Direct, &c.Finished.Medium, &c.Finished.Bulk,
	}
	left := all[copy(all[:], first[:]):]
	for i := range steps {
		left[2*i], left[2*i+1] = &c.Away[i], &c.Returned[i]
	}
	return all
}

// Numbers returns the counters as a list without zeros at its end, for a record of a store. It is never nil. Counters that have risen are greater by the
// first number that differs.
func (c Counters) Numbers() []int64 {
	list := []int64{}
	for i, n := range numbersOf(&c) {
		if *n != 0 {
			list = append(append(list, make([]int64, i-len(list))...), *n)
		}
	}
	return list
}

// Of returns the counters of a list. It ignores numbers that this release does not know.
func Of(list []int64) (c Counters) {
	for i, n := range numbersOf(&c) {
		if i < len(list) {
			*n = list[i]
		}
	}
	return c
}

// with returns the counters changed by f, which gets each number and that of o.
func (c Counters) with(o Counters, f func(a, b int64) int64) Counters {
	others := numbersOf(&o)
	for i, n := range numbersOf(&c) {
		*n = f(*n, *others[i])
	}
	return c
}

// Plus returns the sums.
func (c Counters) Plus(o Counters) Counters {
	return c.with(o, func(a, b int64) int64 { return a + b })
}

// Minus returns the differences.
func (c Counters) Minus(o Counters) Counters {
	return c.with(o, func(a, b int64) int64 { return a - b })
}

// Max returns the greater one of each number.
func (c Counters) Max(o Counters) Counters {
	return c.with(o, func(a, b int64) int64 { return max(a, b) })
}

package main

import (
	"fmt"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"
)

// onSignal is the text after the slash for a clock that changes at a signal.
const onSignal = "signal"

// clock differs from another clock by an offset. It is safe for concurrent use.
type clock struct {
	system  func() time.Time
	offsets []time.Duration
	began   time.Time
	period  time.Duration // how long each offset holds; 0 means until step
	steps   atomic.Int64
}

// newClock returns a clock. "30s" is ahead by 30 seconds, "-30s" behind. "30s,-20s/5s" alternates between its offsets every five seconds.
// "0s,1h,0s/signal" changes to its next offset at each call of step.
func newClock(text string, system func() time.Time) (*clock, error) {
	list, every, several := strings.Cut(text, "/")
	c := &clock{system: system, began: system()}
	if several && every != onSignal {
		var err error
		if c.period, err = time.ParseDuration(every); err != nil || c.period <= 0 {
			return nil, fmt.Errorf("-clock is %q: give offsets and a positive duration or the word signal, such as 30s,-20s/5s", text)
		}
	}
	for offset := range strings.SplitSeq(list, ",") {
		d, err := time.ParseDuration(offset)
		if err != nil {
			return nil, fmt.Errorf("-clock is %q: give offsets such as 30s, or 30s,-20s/5s", text)
		}
		c.offsets = append(c.offsets, d)
	}
	if several != (len(c.offsets) > 1) {
		return nil, fmt.Errorf("-clock is %q: give one offset, or several and how long each holds", text)
	}
	return c, nil
}

// now returns the time of the clock.
func (c *clock) now() time.Time {
	at, n := c.system(), int(c.steps.Load())
	if c.period > 0 {
		n = int(at.Sub(c.began) / c.period)
	}
	return set(at, c.offsets[n%len(c.offsets)])
}

// step changes a clock without a period to its next offset, and returns that offset. The first offset follows the last.
func (c *clock) step() time.Duration {
	return c.offsets[int(c.steps.Add(1))%len(c.offsets)]
}

// reading has the fields of time.Time. In a time with a monotonic reading, the second field is that reading in nanoseconds.
type reading struct {
	_         uint64
	monotonic int64
	_         *time.Location
}

// set returns the reading of a host whose wall clock was set by an offset. The monotonic reading stays as it is, because setting the
// wall clock does not change it. time.Time.Add moves both, and no function of the package moves one of them.
func set(t time.Time, by time.Duration) time.Time {
	moved := t.Add(by)
	if moved != moved.Round(0) { // it has a monotonic reading
		(*reading)(unsafe.Pointer(&moved)).monotonic -= int64(by) // TestSet notices if the fields change
	}
	return moved
}

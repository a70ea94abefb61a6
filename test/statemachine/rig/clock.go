package rig

import (
	"sync"
	"time"
)

// Epoch is when a Clock begins.
var Epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// Clock is the time that the hosts of a rig have in common. It moves only when a test moves it.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a Clock at Epoch.
func NewClock() *Clock { return &Clock{now: Epoch} }

// Now returns the time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the clock forward.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// Skewed returns a clock that is ahead of this one by d, or behind it if d is negative.
func (c *Clock) Skewed(d time.Duration) func() time.Time {
	return func() time.Time { return c.Now().Add(d) }
}

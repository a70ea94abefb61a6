package pebblestore

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/fanmail/fanmail/pkg/message"
)

// flights are the stretches of owners that are being written as tables. That waits for the disk, so it must not hold the locks of other
// owners. A flight has its owners from board to land: meanwhile no other call appends to their inboxes, or changes what is in them. Who waits
// for a flight holds no lock and has no flight, so that nobody can wait for one another.
type flights struct {
	number atomic.Int32 // it changes only under the locks of the owners
	mu     sync.Mutex
	landed chan struct{} // it is closed when the next flight has landed
}

// next returns a channel that is closed when a flight has landed after the call.
func (f *flights) next() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.landed == nil {
		f.landed = make(chan struct{})
	}
	return f.landed
}

func (f *flights) wake() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.landed != nil {
		close(f.landed)
		f.landed = nil
	}
}

// hold takes the locks of owners, as soon as no flight has any of them.
func (s *Inbox) hold(ctx context.Context, owners []keyed) (heldLocks, error) {
	set := s.locks.newSet()
	for i := range owners {
		s.locks.add(set, owners[i].lock)
	}
	for {
		locks := s.locks.lock(set)
		if !s.anyFlies(owners) {
			return locks, nil
		}
		landed := s.flights.next() // before the locks are free, so that the flight cannot land unnoticed
		locks.unlock()
		select {
		case <-landed:
		case <-ctx.Done():
			return heldLocks{}, ctx.Err()
		}
	}
}

func (s *Inbox) anyFlies(owners []keyed) bool {
	if s.flights.number.Load() == 0 {
		return false
	}
	for i := range owners {
		if s.tails.flies(&owners[i]) {
			return true
		}
	}
	return false
}

// board makes a flight of owners, and notes their tails.
func (s *Inbox) board(ctx context.Context, owners []keyed) error {
	locks, err := s.hold(ctx, owners)
	if err != nil {
		return err
	}
	defer locks.unlock()
	s.flights.number.Add(1)
	for i := range owners {
		s.tails.board(&owners[i])
	}
	return nil
}

// land ends a flight. The tails of the owners are known if all pushes were tried.
func (s *Inbox) land(owners []keyed, known bool) {
	set := s.locks.newSet()
	for i := range owners {
		s.locks.add(set, owners[i].lock)
	}
	locks := s.locks.lock(set)
	if known {
		for i := range owners {
			s.tails.land(&owners[i])
		}
	} else {
		s.tails.forget(owners)
	}
	s.flights.number.Add(-1)
	locks.unlock()
	s.flights.wake()
}

// beginChange starts a change of an inbox under the owner's lock. After it the rules of begin apply.
func (s *Inbox) beginChange(ctx context.Context, op string, owner message.UserID) (c change, err error) {
	if c.call, err = s.db.begin(ctx, op); err != nil {
		return c, err
	}
	if c.locks, err = s.hold(ctx, []keyed{s.keyed(owner)}); err != nil {
		c.call.end(ctx, &err)
		return c, err
	}
	c.batch = s.db.engine.NewBatch()
	return c, nil
}

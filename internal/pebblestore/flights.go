package pebblestore

import (
	"context"
	"slices"
	"sync"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// flights are the stretches of owners that are being written as tables. That waits for the disk, so it must not hold the locks of other
// owners. A flight has its owners from board to land: meanwhile no other call appends to their inboxes, or changes what is in them. Who waits
// for a flight holds no lock and has no flight, so that nobody can wait for one another.
type flights struct {
	mu sync.Mutex
	// aloft has the owners of each flight, in the order of keys. It changes only under the locks of the owners, and is never overwritten.
	aloft  [][]keyed
	landed chan struct{} // it is closed when the next flight has landed
}

func (f *flights) board(owners []keyed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.aloft = append(slices.Clone(f.aloft), owners)
}

func (f *flights) land(owners []keyed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.aloft = slices.DeleteFunc(slices.Clone(f.aloft), func(flight []keyed) bool { return &flight[0] == &owners[0] })
	if f.landed != nil {
		close(f.landed)
		f.landed = nil
	}
}

// have reports whether a flight has one of the owners, which are in the order of keys. The caller holds their locks.
func (f *flights) have(owners []keyed) bool {
	f.mu.Lock()
	aloft := f.aloft
	f.mu.Unlock()
	for _, flight := range aloft {
		i, _ := slices.BinarySearchFunc(owners, flight[0], keyOrder)
		for ; i < len(owners) && keyOrder(owners[i], flight[len(flight)-1]) <= 0; i++ {
			if _, found := slices.BinarySearchFunc(flight, owners[i], keyOrder); found {
				return true
			}
		}
	}
	return false
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

// hold takes the locks of owners, who are in the order of keys, as soon as no flight has any of them.
func (s *Inbox) hold(ctx context.Context, owners []keyed) (heldLocks, error) {
	for {
		locks := lockAll(s.locks, owners, keyed.stripe)
		if !s.flights.have(owners) {
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

// board makes a flight of owners, and notes their tails.
func (s *Inbox) board(ctx context.Context, owners []keyed) error {
	locks, err := s.hold(ctx, owners)
	if err != nil {
		return err
	}
	defer locks.unlock()
	s.tails.read(owners)
	s.flights.board(owners)
	return nil
}

// land ends a flight. The tails of the owners are known if all pushes were applied.
func (s *Inbox) land(owners []keyed, applied bool) {
	locks := lockAll(s.locks, owners, keyed.stripe)
	defer locks.unlock()
	defer s.flights.land(owners)
	s.tails.settle(owners, applied)
}

// beginChange starts a change of an inbox under the owner's lock. After it the rules of begin apply.
func (s *Inbox) beginChange(ctx context.Context, op string, owner message.UserID) (c change, err error) {
	if c.call, err = s.db.begin(ctx, op); err != nil {
		return c, err
	}
	if c.locks, err = s.hold(ctx, []keyed{s.keyed(&bucket.Push{Owner: owner})}); err != nil {
		c.call.end(ctx, &err)
		return c, err
	}
	c.batch = s.db.engine.NewBatch()
	return c, nil
}

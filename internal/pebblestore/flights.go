package pebblestore

import (
	"context"
	"slices"
	"sort"
	"sync"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// flights are the stretches of owners that are being written as tables. That waits for the disk, so it must not hold the locks of other
// owners. A flight has its owners from board to land: meanwhile no other call appends to their inboxes, or changes what is in them. Who waits
// for a flight holds no lock and has no flight, so that nobody can wait for one another.
type flights struct {
	mu sync.Mutex
	// aloft has the owners of each flight, in the order of keys. It changes only under the locks of the owners, and a change makes a new slice.
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

// awaited returns a channel that is closed when a flight has landed, if a flight has one of the owners, and nil otherwise. The caller holds the
// locks of the owners, which are in the order of keys. So this flight has not landed before the call.
func (f *flights) awaited(owners []keyed) <-chan struct{} {
	f.mu.Lock()
	aloft := f.aloft
	f.mu.Unlock()
	if !slices.ContainsFunc(aloft, func(flight []keyed) bool { return meet(owners, flight) }) {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.landed == nil {
		f.landed = make(chan struct{})
	}
	return f.landed
}

// meet reports whether two lists in the order of keys have an owner in common.
func meet(x, y []keyed) bool {
	if x = from(x, &y[0]); len(x) > 0 {
		y = from(y, &x[0])
	}
	for len(x) > 0 && len(y) > 0 {
		switch order := keyOrder(&x[0], &y[0]); {
		case order == 0:
			return true
		case order < 0:
			x = x[1:]
		default:
			y = y[1:]
		}
	}
	return false
}

// from returns the part of a list in the order of keys that does not come before an owner.
func from(list []keyed, owner *keyed) []keyed {
	return list[sort.Search(len(list), func(i int) bool { return keyOrder(&list[i], owner) >= 0 }):]
}

// hold takes the locks of owners, who are in the order of keys, as soon as no flight has any of them.
func (s *Inbox) hold(ctx context.Context, owners []keyed) (heldLocks, error) {
	for {
		locks := lockAll(s.locks, owners, keyed.stripe)
		landed := s.flights.awaited(owners)
		if landed == nil {
			return locks, nil
		}
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

// land ends a flight. The tails of the owners are known if all pushes were tried.
func (s *Inbox) land(owners []keyed, tried bool) {
	locks := lockAll(s.locks, owners, keyed.stripe)
	defer locks.unlock()
	defer s.flights.land(owners)
	s.tails.settle(owners, tried)
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

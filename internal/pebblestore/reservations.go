package pebblestore

import (
	"context"
	"slices"
	"sort"
	"sync"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// reservations are the stretches of owners that are being written as tables. That waits for the disk, so it must not hold the locks of other
// owners. Meanwhile no other call appends to the inboxes of reserved owners, or changes what is in them. Who waits for a reservation holds no
// lock and has no reservation, so that nobody can wait for one another.
type reservations struct {
	mu sync.Mutex
	// lists has the owners of each reservation, in the order of keys. It changes only under the locks of the owners, and a change makes a new slice.
	lists    [][]keyed
	released chan struct{} // it is closed when the next reservation has ended
}

func (r *reservations) add(owners []keyed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lists = append(slices.Clone(r.lists), owners)
}

func (r *reservations) remove(owners []keyed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lists = slices.DeleteFunc(slices.Clone(r.lists), func(list []keyed) bool { return &list[0] == &owners[0] })
	if r.released != nil {
		close(r.released)
		r.released = nil
	}
}

// awaited returns a channel that is closed when a reservation has ended, if one of the owners is reserved, and nil otherwise. The caller holds the
// locks of the owners, which are in the order of keys. So their reservation cannot end before awaited returns.
func (r *reservations) awaited(owners []keyed) <-chan struct{} {
	r.mu.Lock()
	lists := r.lists
	r.mu.Unlock()
	if !slices.ContainsFunc(lists, func(list []keyed) bool { return meet(owners, list) }) {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.released == nil {
		r.released = make(chan struct{})
	}
	return r.released
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

// hold takes the locks of owners, who are in the order of keys, as soon as none of them is reserved.
func (s *Inbox) hold(ctx context.Context, owners []keyed) (heldLocks, error) {
	for {
		locks := lockAll(s.locks, owners, keyed.stripe)
		released := s.reservations.awaited(owners)
		if released == nil {
			return locks, nil
		}
		locks.unlock()
		select {
		case <-released:
		case <-ctx.Done():
			return heldLocks{}, ctx.Err()
		}
	}
}

// reserve makes a reservation of owners, and notes their tails.
func (s *Inbox) reserve(ctx context.Context, owners []keyed) error {
	locks, err := s.hold(ctx, owners)
	if err != nil {
		return err
	}
	defer locks.unlock()
	s.tails.read(owners)
	s.reservations.add(owners)
	return nil
}

// release ends a reservation. The tails of the owners are known if all pushes were tried.
func (s *Inbox) release(owners []keyed, tried bool) {
	locks := lockAll(s.locks, owners, keyed.stripe)
	defer locks.unlock()
	defer s.reservations.remove(owners)
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

package pebblestore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/fanmail/fanmail/pkg/userstate"
)

// Step implements userstate.Store. The state of a refused step also survives a crash, because the caller continues with it.
func (s *Users) Step(ctx context.Context, steps []userstate.Step) (_ []userstate.Stepped, err error) {
	c, err := beginChange(ctx, s.db, "users.step", s.locks, steps, func(step userstate.Step) uint64 { return userLock(step.From.User) })
	if err != nil {
		return nil, err
	}
	defer c.end(ctx, &err)
	if err := ctx.Err(); err != nil { // the clock judges a step, so a delayed step would be wrong
		return nil, err
	}
	stepped := make([]userstate.Stepped, len(steps))
	for i, step := range steps {
		var err error
		if stepped[i], err = s.step(c.batch, step); err != nil {
			return nil, fmt.Errorf("step of %s: %w", step.From.User, err)
		}
	}
	if !slices.ContainsFunc(steps, func(step userstate.Step) bool { return !step.Lazy }) {
		return stepped, s.db.apply(c.batch) // later writes follow it in the log
	}
	return stepped, s.db.commit(c.batch, &c.locks)
}

func (s *Users) step(batch *pebble.Batch, step userstate.Step) (userstate.Stepped, error) {
	was, err := s.read(step.From.User)
	if err != nil {
		return userstate.Stepped{}, err
	}
	if !was.Same(step.From) {
		return userstate.Stepped{State: was}, nil
	}
	to := step.To
	to.User, to.Head = was.User, was.Head
	if err := moveLease(batch, was, to); err != nil {
		return userstate.Stepped{}, err
	}
	if to.Empty() {
		return userstate.Stepped{State: userstate.State{User: was.User}, Applied: true}, batch.Delete(s.key(was.User), nil)
	}
	value := encodeState(to)
	if err := batch.Set(s.key(to.User), value, nil); err != nil {
		return userstate.Stepped{}, err
	}
	stored := userstate.State{User: to.User} // decoded, so that the caller sees the stored value
	err = parseState(&stored, value)
	return userstate.Stepped{State: stored, Applied: true}, err
}

// rehydrates reports whether a state has an entry in the leases space.
func rehydrates(st userstate.State) bool { return st.Mark != nil || st.Sweep != nil }

// moveLease moves the entry of a state in the leases space.
func moveLease(batch *pebble.Batch, was, is userstate.State) error {
	if rehydrates(was) {
		if err := batch.Delete(leaseKey(was.Lease.Until, was.User), nil); err != nil {
			return err
		}
	}
	if rehydrates(is) {
		return batch.Set(leaseKey(is.Lease.Until, is.User), nil, nil)
	}
	return nil
}

// Due implements userstate.Store.
func (s *Users) Due(ctx context.Context, dead userstate.Dead, limit int) (due []userstate.Looked, err error) {
	call, err := s.db.begin(ctx, "users.due")
	if err != nil {
		return nil, err
	}
	defer call.end(ctx, &err)
	it, err := s.db.iterate([]byte{byte(spaceLeases)})
	if err != nil {
		return nil, err
	}
	defer closeIter(it, &err)
	users, err := s.cloneFor(it, spaceUsers)
	if err != nil {
		return nil, err
	}
	defer closeIter(users, &err)
	states := walk{Iterator: users}
	alive := timePrefix(spaceLeases, dead.Before.Add(time.Millisecond-1)) // a lease that ends earlier in the same millisecond is dead
	ahead := timePrefix(spaceLeases, dead.After.Add(time.Millisecond))
	for found := it.First(); found && len(due) < limit; found = it.Next() {
		if string(it.Key()) >= string(alive) && string(it.Key()) < string(ahead) && !it.SeekGE(ahead) {
			break
		}
		user := leaseUser(it.Key())
		l := userstate.Looked{State: userstate.State{User: user}}
		err := states.state(s.key(user), &l.State)
		if err == nil && !rehydrates(l.State) {
			err = fmt.Errorf("rehydration of %s: %w", user, corrupt(spaceLeases))
		}
		if l.Err, err = ofUser(err); err != nil {
			return nil, err
		}
		due = append(due, l)
	}
	return due, it.Error()
}

// cloneFor returns an iterator over another space that sees the database at the same moment as it. The caller must close it with
// closeIter.
func (s *Users) cloneFor(it *pebble.Iterator, space space) (*pebble.Iterator, error) {
	prefix := []byte{byte(space)}
	clone, err := it.Clone(pebble.CloneOptions{IterOptions: &pebble.IterOptions{LowerBound: prefix, UpperBound: after(prefix)}})
	if err != nil {
		return nil, fmt.Errorf("read from the store: %w", err)
	}
	return clone, nil
}

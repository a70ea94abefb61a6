package pebblestore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/fanmail/fanmail/internal/partition"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// Users is the store of user states.
type Users struct {
	db    *DB
	locks stripes
}

var _ userstate.Store = (*Users)(nil)

func (s *Users) key(user message.UserID) []byte {
	return appendUser(nil, partition.Of(user, s.db.partitions), user)
}

// read returns a user's state, or the state of an unknown user.
func (s *Users) read(user message.UserID) (userstate.State, error) {
	st := userstate.State{User: user}
	_, err := s.db.get(s.key(user), func(value []byte) (err error) {
		st, err = parseState(user, value)
		return err
	})
	return st, err
}

// write adds a state to a batch. The change must not affect the mark, the sweep or the lease.
func (s *Users) write(batch *pebble.Batch, st userstate.State) error {
	return batch.Set(s.key(st.User), encodeState(st), nil)
}

// Lookup implements userstate.Store. Most callers ask for users of one partition. Their keys are ascending then, and the
// iterator finds each key near the one before.
func (s *Users) Lookup(ctx context.Context, users []message.UserID) (_ []userstate.Looked, err error) {
	call, err := s.db.begin(ctx, "users.lookup")
	if err != nil {
		return nil, err
	}
	defer call.end(ctx, &err)
	it, err := s.db.iterate([]byte{byte(spaceUsers)})
	if err != nil {
		return nil, err
	}
	defer closeIter(it, &err)
	found := make([]userstate.Looked, len(users))
	var key []byte
	for i, user := range users {
		key = appendUser(key[:0], partition.Of(user, s.db.partitions), user)
		st, err := seekState(it, key, user)
		if found[i], err = looked(user, st, err); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// looked returns the result of reading a user's state. An error that concerns only this user becomes part of the result.
func looked(user message.UserID, st userstate.State, err error) (userstate.Looked, error) {
	if errors.Is(err, ErrCorrupt) {
		return userstate.Looked{State: userstate.State{User: user}, Err: err}, nil
	}
	return userstate.Looked{State: st}, err
}

// seekState returns the state of the user with a key, or the state of an unknown user.
func seekState(it *pebble.Iterator, key []byte, user message.UserID) (userstate.State, error) {
	if !it.SeekGE(key) || string(it.Key()) != string(key) {
		return userstate.State{User: user}, it.Error()
	}
	value, err := it.ValueAndErr()
	if err != nil {
		return userstate.State{}, fmt.Errorf("read from the store: %w", err)
	}
	return stateIn(value, user)
}

// stateIn returns the user's state in a value.
func stateIn(value []byte, user message.UserID) (userstate.State, error) {
	st, err := parseState(user, value)
	if err != nil {
		return userstate.State{}, fmt.Errorf("state of %s: %w", user, err)
	}
	return st, nil
}

// List implements userstate.Store.
func (s *Users) List(ctx context.Context, partition int, after message.UserID, limit int) (users []userstate.Looked, err error) {
	call, err := s.db.begin(ctx, "users.list")
	if err != nil {
		return nil, err
	}
	defer call.end(ctx, &err)
	prefix := appendUser(nil, partition, "")
	for key, value := range s.db.records(prefix, above(prefix, []byte(after)), limit, &err) {
		user := message.UserID(key[len(prefix):])
		st, err := stateIn(value, user)
		l, err := looked(user, st, err)
		if err != nil {
			return nil, err
		}
		users = append(users, l)
	}
	return users, err
}

// View implements userstate.Store.
func (s *Users) View(ctx context.Context, views []userstate.View) (_ []userstate.Viewed, err error) {
	c, err := beginChange(ctx, s.db, "users.view", s.locks, views, func(v userstate.View) uint64 { return userLock(v.User) })
	if err != nil {
		return nil, err
	}
	defer c.end(ctx, &err)
	if err := ctx.Err(); err != nil { // the clock judges a view, so a delayed view would be wrong
		return nil, err
	}
	viewed := make([]userstate.Viewed, len(views))
	for i, v := range views {
		var err error
		if viewed[i], err = s.view(c.batch, v); err != nil {
			return nil, fmt.Errorf("view of %s: %w", v.User, err)
		}
	}
	for i, v := range views {
		if viewed[i].Applied && !v.Lazy {
			return viewed, s.db.commit(c.batch, &c.locks)
		}
	}
	return viewed, s.db.apply(c.batch)
}

func (s *Users) view(batch *pebble.Batch, v userstate.View) (userstate.Viewed, error) {
	st, err := s.read(v.User)
	if err != nil {
		return userstate.Viewed{}, err
	}
	previous := st
	if !v.Applies(st) {
		return userstate.Viewed{Previous: previous}, nil
	}
	if at := v.At.UTC().Truncate(time.Millisecond); at.After(st.LastViewed) {
		st.LastViewed = at
		if err := s.write(batch, st); err != nil {
			return userstate.Viewed{}, err
		}
	}
	return userstate.Viewed{Previous: previous, Applied: true}, nil
}

// RaiseHeads implements bucket.Hints.
func (s *Users) RaiseHeads(ctx context.Context, heads []bucket.Head) (err error) {
	c, err := beginChange(ctx, s.db, "users.raise_heads", s.locks, heads, func(h bucket.Head) uint64 { return userLock(h.Owner) })
	if err != nil {
		return err
	}
	defer c.end(ctx, &err)
	it, err := s.db.iterate([]byte{byte(spaceUsers)})
	if err != nil {
		return err
	}
	defer closeIter(it, &err)
	for _, h := range heads { // mostly of one partition and ascending, so the iterator finds the next key nearby
		st, err := seekState(it, s.key(h.Owner), h.Owner)
		if err != nil && !errors.Is(err, ErrCorrupt) {
			return err
		}
		if err != nil || !st.Known() || h.Hint.Sequence <= st.Head.Sequence {
			continue
		}
		st.Head = h.Hint
		if err := s.write(c.batch, st); err != nil {
			return err
		}
	}
	return s.db.apply(c.batch)
}

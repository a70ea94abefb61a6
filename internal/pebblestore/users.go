package pebblestore

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	_, err := s.db.get(s.key(user), func(value []byte) error { return parseState(&st, value) })
	return st, err
}

// write adds a state to a batch. The change must not affect the mark, the sweep or the lease.
func (s *Users) write(batch *pebble.Batch, st userstate.State) error {
	return batch.Set(s.key(st.User), encodeState(st), nil)
}

// Lookup implements userstate.Store. Most callers ask for users of one partition. Their keys are ascending then.
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
	states := walk{Iterator: it}
	var key []byte
	for i, user := range users {
		key = appendUser(key[:0], partition.Of(user, s.db.partitions), user)
		found[i].State.User = user
		if found[i].Err, err = ofUser(states.state(key, &found[i].State)); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// ofUser divides the errors of reading a user's state into those that concern only this user, and the others.
func ofUser(err error) (damage, failure error) {
	if errors.Is(err, ErrCorrupt) {
		return err, nil
	}
	return nil, err
}

// state reads the state of the user with a key, which has only the user before, and afterwards if the user is unknown.
func (w *walk) state(key []byte, st *userstate.State) error {
	if !w.seek(key) || string(w.Key()) != string(key) {
		return w.Error()
	}
	value, err := w.ValueAndErr()
	if err != nil {
		return fmt.Errorf("read from the store: %w", err)
	}
	return stateIn(value, st)
}

// stateIn reads the user's state in a value.
func stateIn(value []byte, st *userstate.State) error {
	if err := parseState(st, value); err != nil {
		return fmt.Errorf("state of %s: %w", st.User, err)
	}
	return nil
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
		l := userstate.Looked{State: userstate.State{User: message.UserID(key[len(prefix):])}}
		if l.Err, err = ofUser(stateIn(value, &l.State)); err != nil {
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

// RaiseHeads implements bucket.Hints. It holds the locks of a part of the users at a time.
func (s *Users) RaiseHeads(ctx context.Context, heads []bucket.Head) (err error) {
	call, err := s.db.begin(ctx, "users.raise_heads")
	if err != nil {
		return err
	}
	defer call.end(ctx, &err)
	for some := range slices.Chunk(heads, ownersAtOnce) {
		if err := s.raiseHeads(some); err != nil {
			return err
		}
	}
	return nil
}

func (s *Users) raiseHeads(heads []bucket.Head) (err error) {
	locks := lockAll(s.locks, heads, func(h bucket.Head) uint64 { return userLock(h.Owner) })
	defer locks.unlock()
	it, err := s.db.iterate([]byte{byte(spaceUsers)})
	if err != nil {
		return err
	}
	defer closeIter(it, &err)
	states, batch := walk{Iterator: it}, s.db.engine.NewBatch()
	for _, h := range heads { // mostly of one partition and ascending
		st := userstate.State{User: h.Owner}
		damage, err := ofUser(states.state(s.key(h.Owner), &st))
		if err != nil {
			return err
		}
		if damage != nil || !st.Known() || h.Hint.Sequence <= st.Head.Sequence {
			continue
		}
		st.Head = h.Hint
		if err := s.write(batch, st); err != nil {
			return err
		}
	}
	return s.db.apply(batch)
}

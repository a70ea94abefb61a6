package pebblestore

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/cockroachdb/pebble/v2"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/partition"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// Users is the store of user states.
type Users struct {
	db    *DB
	locks stripes
}

var _ userstate.Store = (*Users)(nil)

// A state is
//
//	version[1] last_viewed[8] head_sequence[4] head_floor[16] rest
//
// Fan-out reads it for every recipient, so what fan-out needs stands in fixed places; the rest, which only its
// owner's reads need, is CBOR, or nothing where there is nothing.
const stateHeaderLen = 8 + 4 + idLen

// stateRest is what only a user's own reads need.
type stateRest struct {
	UpTo     message.ID `cbor:"1,keyasint"`
	Sequence uint32     `cbor:"2,keyasint"`
	Slots    int64      `cbor:"3,keyasint"`
	Read     int64      `cbor:"4,keyasint"`
}

func encodeState(st userstate.State) []byte {
	b := appendTime(append(make([]byte, 0, 1+stateHeaderLen), version), st.LastViewed)
	b = binary.BigEndian.AppendUint32(b, st.Head.Sequence)
	b = append(b, st.Head.Floor[:]...)
	if rest := stateRest(st.ReadMark); rest != (stateRest{}) {
		b = encode(b, rest)
	}
	return b
}

func parseState(user message.UserID, value []byte) (userstate.State, error) {
	b, err := payload(spaceUsers, value, stateHeaderLen)
	if err != nil {
		return userstate.State{}, err
	}
	var rest stateRest
	if len(b) > stateHeaderLen {
		if err := decode(spaceUsers, b[stateHeaderLen:], &rest); err != nil {
			return userstate.State{}, err
		}
	}
	return userstate.State{
		User: user, LastViewed: timeOf(b),
		Head:     bucket.Hint{Sequence: binary.BigEndian.Uint32(b[8:]), Floor: message.ID(b[12:])},
		ReadMark: bucket.ReadMark(rest),
	}, nil
}

func (s *Users) key(user message.UserID) []byte {
	return appendUser(nil, partition.Of(user, s.db.partitions), user)
}

// read returns a user's state; where there is none, one that is not known.
func (s *Users) read(user message.UserID) (userstate.State, error) {
	st := userstate.State{User: user}
	_, err := s.db.get(s.key(user), func(value []byte) (err error) {
		st, err = parseState(user, value)
		return err
	})
	return st, err
}

func (s *Users) write(batch *pebble.Batch, st userstate.State) error {
	return batch.Set(s.key(st.User), encodeState(st), nil)
}

// lock takes the locks of users and returns what lets go of them.
func (s *Users) lock(n int, user func(int) message.UserID) (unlock func()) {
	locks := s.locks.newSet()
	for i := range n {
		s.locks.add(locks, xxhash.Sum64String(string(user(i))))
	}
	s.locks.lock(locks)
	return func() { s.locks.unlock(locks) }
}

// Lookup implements userstate.Store.
func (s *Users) Lookup(ctx context.Context, partition int, users []message.UserID) (_ []userstate.State, err error) {
	if err := s.db.begin(ctx); err != nil {
		return nil, err
	}
	defer s.db.end()
	it, err := s.db.iterate(appendUser(nil, partition, ""))
	if err != nil {
		return nil, err
	}
	defer closeIter(it, &err)
	states := make([]userstate.State, len(users))
	var key []byte
	for i, user := range users {
		key = appendUser(key[:0], partition, user)
		if states[i], err = seekState(it, key, user); err != nil {
			return nil, err
		}
	}
	return states, nil
}

// seekState returns the state of the user with a key; where there is none, one that is not known.
func seekState(it *pebble.Iterator, key []byte, user message.UserID) (userstate.State, error) {
	if !it.SeekGE(key) || string(it.Key()) != string(key) {
		return userstate.State{User: user}, it.Error()
	}
	value, err := it.ValueAndErr()
	if err != nil {
		return userstate.State{}, fmt.Errorf("read from the store: %w", err)
	}
	st, err := parseState(user, value)
	if err != nil {
		return userstate.State{}, fmt.Errorf("state of %s: %w", user, err)
	}
	return st, nil
}

// View implements userstate.Store.
func (s *Users) View(ctx context.Context, views []userstate.View) ([]userstate.Viewed, error) {
	if err := s.db.begin(ctx); err != nil {
		return nil, err
	}
	defer s.db.end()
	unlock := s.lock(len(views), func(i int) message.UserID { return views[i].User })
	batch := s.db.engine.NewBatch()
	viewed := make([]userstate.Viewed, len(views))
	for i, v := range views {
		var err error
		if viewed[i], err = s.view(batch, v); err != nil {
			unlock()
			return nil, fmt.Errorf("view of %s: %w", v.User, err)
		}
	}
	return viewed, s.db.commit(batch, unlock)
}

func (s *Users) view(batch *pebble.Batch, v userstate.View) (userstate.Viewed, error) {
	st, err := s.read(v.User)
	if err != nil {
		return userstate.Viewed{}, err
	}
	previous := st
	if !st.Known() && !v.Create || st.Known() && !st.LastViewed.After(v.After) {
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

// SetReadMark implements userstate.Store.
func (s *Users) SetReadMark(ctx context.Context, user message.UserID, mark bucket.ReadMark) (bucket.ReadMark, error) {
	if err := s.db.begin(ctx); err != nil {
		return bucket.ReadMark{}, err
	}
	defer s.db.end()
	unlock := s.lock(1, func(int) message.UserID { return user })
	batch := s.db.engine.NewBatch()
	st, err := s.read(user)
	if err == nil && !st.Known() {
		err = userstate.ErrNotFound
	}
	if err == nil && !mark.UpTo.Less(st.ReadMark.UpTo) {
		st.ReadMark = mark
		err = s.write(batch, st)
	}
	if err != nil {
		unlock()
		return bucket.ReadMark{}, fmt.Errorf("read mark of %s: %w", user, err)
	}
	return st.ReadMark, s.db.commit(batch, unlock)
}

// RaiseHeads implements bucket.Hints.
func (s *Users) RaiseHeads(ctx context.Context, heads []bucket.Head) (err error) {
	if err := s.db.begin(ctx); err != nil {
		return err
	}
	defer s.db.end()
	unlock := s.lock(len(heads), func(i int) message.UserID { return heads[i].Owner })
	defer unlock()
	it, err := s.db.iterate([]byte{byte(spaceUsers)})
	if err != nil {
		return err
	}
	defer closeIter(it, &err)
	batch := s.db.engine.NewBatch()
	for _, h := range heads { // mostly one partition's, ascending: an iterator finds the next one nearby
		st, err := seekState(it, s.key(h.Owner), h.Owner)
		if err != nil {
			return err
		}
		if !st.Known() || h.Hint.Sequence <= st.Head.Sequence {
			continue
		}
		st.Head = h.Hint
		if err := s.write(batch, st); err != nil {
			return err
		}
	}
	return s.db.apply(batch)
}

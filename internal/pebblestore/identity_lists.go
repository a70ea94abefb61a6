package pebblestore

import (
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/fanmail/fanmail/pkg/identity"
	"github.com/fanmail/fanmail/pkg/message"
)

// identityList is the value of a user's list. Its key has the user.
type identityList struct {
	Revision identity.Number `cbor:"1,keyasint"`
	Items    []identityItem  `cbor:"2,keyasint"`
}

type identityItem struct {
	Kind   identity.Kind   `cbor:"1,keyasint"`
	Value  string          `cbor:"2,keyasint"`
	Number identity.Number `cbor:"3,keyasint"`
}

func (l identityList) list(user message.UserID) identity.List {
	list := identity.List{User: user, Revision: l.Revision}
	for _, item := range l.Items {
		list.Items = append(list.Items, identity.Item{Identity: identity.Identity{Kind: item.Kind, Value: item.Value}, Number: item.Number})
	}
	return list
}

// lookList returns the list of a user. An error that concerns only this list becomes part of the result.
func (s *Identities) lookList(user message.UserID) (identity.LookedList, error) {
	looked := identity.LookedList{List: identity.List{User: user}}
	_, err := s.db.get(listKey(user), func(value []byte) error {
		var l identityList
		if err := decodeValue(spaceLists, value, &l); err != nil {
			return err
		}
		looked.List = l.list(user)
		return nil
	})
	if err != nil {
		err = fmt.Errorf("identities of %s: %w", user, err)
	}
	if errors.Is(err, ErrCorrupt) {
		looked.Err, err = err, nil
	}
	return looked, err
}

// Lists implements identity.Store.
func (s *Identities) Lists(ctx context.Context, users []message.UserID) ([]identity.LookedList, error) {
	return each(ctx, s.db, "identities.lists", users, s.lookList)
}

// ReplaceLists implements identity.Store.
func (s *Identities) ReplaceLists(ctx context.Context, changes []identity.Change) (_ []error, err error) {
	c, err := beginChange(ctx, s.db, "identities.replace_lists", s.users, changes, func(change identity.Change) uint64 { return userLock(change.From.User) })
	if err != nil {
		return nil, err
	}
	defer c.end(ctx, &err)
	results := make([]error, len(changes))
	for i, change := range changes {
		looked, err := s.lookList(change.From.User)
		switch {
		case err != nil:
		case looked.Err != nil:
			results[i] = looked.Err
		case looked.List.Revision != change.From.Revision:
			results[i] = identity.ErrChanged
		default:
			err = s.writeList(c.batch, change)
		}
		if err != nil {
			return nil, err
		}
	}
	return results, s.db.commit(c.batch, &c.locks)
}

func (s *Identities) writeList(batch *pebble.Batch, change identity.Change) error {
	if len(change.Items) == 0 {
		return batch.Delete(listKey(change.From.User), nil)
	}
	l := identityList{Revision: newNumber()}
	for _, item := range change.Items {
		l.Items = append(l.Items, identityItem{Kind: item.Identity.Kind, Value: item.Identity.Value, Number: item.Number})
	}
	return batch.Set(listKey(change.From.User), encodeValue(l), nil)
}

package pebblestore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/cespare/xxhash/v2"
	"github.com/cockroachdb/pebble/v2"

	"github.com/fanmail/fanmail/pkg/identity"
	"github.com/fanmail/fanmail/pkg/message"
)

// Identities is the store of the records of identities and of the lists of users.
type Identities struct {
	db *DB
	// locks are those of identities, and users those of lists.
	locks, users stripes
}

var _ identity.Store = (*Identities)(nil)

// identityRecord is the value of an identity. Its key has the kind and the value.
type identityRecord struct {
	User    message.UserID  `cbor:"1,keyasint"`
	Number  identity.Number `cbor:"2,keyasint"`
	InForce bool            `cbor:"3,keyasint,omitempty"`
	Form    int             `cbor:"4,keyasint"`
	Since   int64           `cbor:"5,keyasint"`
}

func identityRecordOf(r identity.Record) identityRecord {
	return identityRecord{User: r.User, Number: r.Number, InForce: r.InForce, Form: r.Form, Since: r.Since.UnixMilli()}
}

func (r identityRecord) record(id identity.Identity) identity.Record {
	return identity.Record{Identity: id, User: r.User, Number: r.Number, InForce: r.InForce, Form: r.Form, Since: fromMillis(r.Since)}
}

// newNumber returns a random number.
func newNumber() (n identity.Number) {
	_, _ = rand.Read(n[:]) // it never fails
	return n
}

// look returns the record of an identity. An error that concerns only this record becomes part of the result.
func (s *Identities) look(id identity.Identity) (identity.Looked, error) {
	looked := identity.Looked{Record: identity.Record{Identity: id}}
	_, err := s.db.get(identityKey(id), func(value []byte) error {
		var r identityRecord
		if err := decodeValue(spaceIdentities, value, &r); err != nil {
			return err
		}
		looked.Record = r.record(id)
		return nil
	})
	switch {
	case errors.Is(err, ErrCorrupt):
		looked.Err, err = err, nil
	case err != nil:
		err = fmt.Errorf("look up identities: %w", err)
	}
	return looked, err
}

// Lookup implements identity.Store.
func (s *Identities) Lookup(ctx context.Context, ids []identity.Identity) ([]identity.Looked, error) {
	return each(ctx, s.db, "identities.lookup", ids, s.look)
}

// change calls next with the record of each identity, under the locks of all of them, and stores what next returns: the same record, another
// one, or none. It returns what is there then, synced. It leaves a damaged record alone.
func (s *Identities) change(ctx context.Context, op string, records []identity.Record, next func(given, there identity.Record) identity.Record) (_ []identity.Looked, err error) {
	c, err := beginChange(ctx, s.db, op, s.locks, records, func(r identity.Record) uint64 { return xxhash.Sum64String(r.Identity.Key()) })
	if err != nil {
		return nil, err
	}
	defer c.end(ctx, &err)
	found := make([]identity.Looked, len(records))
	for i, r := range records {
		looked, err := s.look(r.Identity)
		if err == nil && looked.Err == nil {
			looked.Record, err = s.write(c.batch, looked.Record, next(r, looked.Record))
		}
		if err != nil {
			return nil, fmt.Errorf("change identities: %w", err)
		}
		found[i] = looked
	}
	return found, s.db.commit(c.batch, &c.locks)
}

// write adds the change of a record to a batch, and returns the record that is there then.
func (s *Identities) write(batch *pebble.Batch, from, to identity.Record) (identity.Record, error) {
	switch key := identityKey(from.Identity); {
	case to == from:
		return from, nil
	case !to.Exists():
		return identity.Record{Identity: from.Identity}, batch.Delete(key, nil)
	default:
		return to, batch.Set(key, encodeValue(identityRecordOf(to)), nil)
	}
}

// Insert implements identity.Store.
func (s *Identities) Insert(ctx context.Context, records []identity.Record) ([]identity.Looked, error) {
	return s.change(ctx, "identities.insert", records, func(given, there identity.Record) identity.Record {
		if there.Exists() {
			return there
		}
		given.Number, given.InForce, given.Since = newNumber(), false, fromMillis(given.Since.UnixMilli())
		return given
	})
}

// Confirm implements identity.Store.
func (s *Identities) Confirm(ctx context.Context, records []identity.Record) ([]identity.Looked, error) {
	return s.change(ctx, "identities.confirm", records, func(given, there identity.Record) identity.Record {
		there.InForce = there.InForce || there.Number == given.Number
		return there
	})
}

// Withdraw implements identity.Store.
func (s *Identities) Withdraw(ctx context.Context, r identity.Record) (bool, error) {
	found, err := s.change(ctx, "identities.withdraw", []identity.Record{r}, func(given, there identity.Record) identity.Record {
		if there.Number == given.Number && !there.InForce {
			return identity.Record{}
		}
		return there
	})
	if err != nil {
		return false, err
	}
	there := found[0].Record
	return !there.InForce || there.Number != r.Number, found[0].Err
}

// Remove implements identity.Store.
func (s *Identities) Remove(ctx context.Context, r identity.Record) error {
	found, err := s.change(ctx, "identities.remove", []identity.Record{r}, func(given, there identity.Record) identity.Record {
		if there.Number == given.Number {
			return identity.Record{}
		}
		return there
	})
	if err != nil {
		return err
	}
	return found[0].Err
}

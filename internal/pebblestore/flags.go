package pebblestore

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/fanmail/fanmail/internal/partition"
	"github.com/fanmail/fanmail/pkg/flag"
	"github.com/fanmail/fanmail/pkg/message"
)

// Flags is the store of the flags of inboxes.
type Flags struct {
	db    *DB
	locks stripes
}

var _ flag.Store = (*Flags)(nil)

func (s *Flags) key(owner message.UserID) []byte {
	return appendOwner(nil, spaceFlags, partition.Of(owner, s.db.partitions), owner)
}

func encodeFlags(r flag.Record) []byte { return r.AppendTo([]byte{version}) }

func parseFlags(owner message.UserID, value []byte) (flag.Record, error) {
	b, err := payload(spaceFlags, value, 0)
	if err != nil {
		return flag.Record{Owner: owner}, err
	}
	r, err := flag.Parse(owner, b)
	if err != nil {
		return r, corrupt(spaceFlags)
	}
	return r, nil
}

// look returns the flags of an inbox. An error that concerns only this record becomes part of the result.
func (s *Flags) look(owner message.UserID) (flag.Looked, error) {
	looked := flag.Looked{Record: flag.Record{Owner: owner}}
	_, err := s.db.get(s.key(owner), func(value []byte) (err error) {
		looked.Record, err = parseFlags(owner, value)
		return err
	})
	if err != nil {
		err = fmt.Errorf("flags of %s: %w", owner, err)
	}
	if errors.Is(err, ErrCorrupt) {
		looked.Err, err = err, nil
	}
	return looked, err
}

// Lookup implements flag.Store.
func (s *Flags) Lookup(ctx context.Context, owners []message.UserID) ([]flag.Looked, error) {
	return each(ctx, s.db, "flags.lookup", owners, s.look)
}

// Replace implements flag.Store.
func (s *Flags) Replace(ctx context.Context, r flag.Record) (stored bool, err error) {
	c, err := beginChange(ctx, s.db, "flags.replace", s.locks, []message.UserID{r.Owner}, userLock)
	if err != nil {
		return false, err
	}
	defer c.end(ctx, &err)
	looked, err := s.look(r.Owner)
	if err = cmp.Or(err, looked.Err); err != nil {
		return false, err
	}
	value, there := encodeFlags(r), looked.Record
	if there.Revision == r.Revision-1 {
		if err := c.batch.Set(s.key(r.Owner), value, nil); err != nil {
			return false, fmt.Errorf("write to the store: %w", err)
		}
	} else if !bytes.Equal(encodeFlags(there), value) {
		return false, nil
	}
	return true, s.db.commit(c.batch, &c.locks)
}

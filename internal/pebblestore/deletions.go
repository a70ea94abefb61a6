package pebblestore

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/cockroachdb/pebble/v2"

	"github.com/fanmail/fanmail/internal/partition"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// Delete implements bucket.Store. The tombstone replaces the record of the entry, and keeps the facts about the bucket in it. The
// same batch records the place of the tombstone and the number of tombstones.
func (s *Inbox) Delete(ctx context.Context, owner message.UserID, sequence uint32, id message.ID) error {
	err := s.change(ctx, "inbox.delete", owner, func(batch *pebble.Batch) error { return s.addDeletion(batch, owner, sequence, id) })
	if err != nil {
		return fmt.Errorf("delete %s from bucket %d of %s: %w", id, sequence, owner, err)
	}
	return nil
}

// Blank implements bucket.Store.
func (s *Inbox) Blank(ctx context.Context, owner message.UserID, sequence uint32, slot int, id message.ID) error {
	at := bucket.Tombstone{Sequence: sequence, Slot: slot, ID: id}
	err := s.change(ctx, "inbox.blank", owner, func(batch *pebble.Batch) error { return s.blank(batch, owner, at) })
	if err != nil {
		return fmt.Errorf("blank %s in slot %d of bucket %d of %s: %w", id, slot, sequence, owner, err)
	}
	return nil
}

// change commits what do puts into a batch under the owner's lock.
func (s *Inbox) change(ctx context.Context, op string, owner message.UserID, do func(*pebble.Batch) error) (err error) {
	c, err := s.beginChange(ctx, op, owner)
	if err != nil {
		return err
	}
	defer c.end(ctx, &err)
	if err := do(c.batch); err != nil {
		return err
	}
	return s.db.commit(c.batch, &c.locks)
}

// addDeletion adds what a deletion changes to a batch: nothing if the entry is a tombstone already.
func (s *Inbox) addDeletion(batch *pebble.Batch, owner message.UserID, sequence uint32, id message.ID) (err error) {
	prefix := appendBucket(s.prefix(spaceInbox, owner), sequence)
	for key, value := range s.db.records(prefix, prefix, math.MaxInt, &err) {
		r, err := parseEntry(value)
		if err != nil {
			return err
		}
		if r.id != id {
			continue
		}
		if r.deleted {
			return nil
		}
		r.toTombstone()
		if err := batch.Set(key, r.appendTo(nil), nil); err != nil {
			return err
		}
		_, slot := placeOf(key)
		return countTombstone(s.db, batch, owner, bucket.Tombstone{Sequence: sequence, Slot: slot, ID: r.id})
	}
	return cmp.Or(err, bucket.ErrNotFound)
}

// blank adds the changes of a blanking to a batch.
func (s *Inbox) blank(batch *pebble.Batch, owner message.UserID, at bucket.Tombstone) error {
	if at.Slot < 0 || at.Slot >= int(s.size) {
		return bucket.ErrNotFound
	}
	if at.ID.IsZero() {
		return s.fill(batch, owner, at)
	}
	key := appendPlace(s.prefix(spaceInbox, owner), at.Sequence, at.Slot)
	var tombstone []byte
	var counted bool
	if _, err := s.db.get(key, func(value []byte) error {
		r, err := parseEntry(value)
		if err != nil || r.id != at.ID {
			return err
		}
		counted = r.deleted
		r.toTombstone()
		r.id = message.ID{}
		tombstone = r.appendTo(nil)
		return nil
	}); err != nil {
		return err
	}
	if tombstone == nil {
		return bucket.ErrNotFound
	}
	if err := batch.Set(key, tombstone, nil); err != nil || counted {
		return err
	}
	return countTombstone(s.db, batch, owner, at)
}

// fill adds a tombstone without an id to a batch. It is for a slot whose record is lost, but which counts, because records above it
// exist. The tombstone has the facts about the bucket that only the lost record had.
func (s *Inbox) fill(batch *pebble.Batch, owner message.UserID, at bucket.Tombstone) (err error) {
	gone, err := s.removedBy(owner)
	if err != nil || at.Sequence < gone.lowest {
		return cmp.Or(err, bucket.ErrNotFound)
	}
	prefix := s.prefix(spaceInbox, owner)
	it, err := s.db.iterate(prefix)
	if err != nil {
		return err
	}
	defer closeIter(it, &err)
	key := appendPlace(bytes.Clone(prefix), at.Sequence, at.Slot)
	if !it.SeekGE(key) || bytes.Equal(it.Key(), key) {
		return cmp.Or(it.Error(), bucket.ErrNotFound)
	}
	lost, alone := entryRecord{deleted: true}, true
	above, err := entryAt(it)
	if err != nil {
		return err
	}
	if inBucket(it.Key(), prefix, at.Sequence) {
		alone = false
	} else { // it was the highest of its bucket, so the floor of the next bucket is its last
		lost.last = above.floor
	}
	if it.SeekLT(key) {
		below, err := entryAt(it)
		switch {
		case err != nil:
			return err
		case inBucket(it.Key(), prefix, at.Sequence):
			alone = false
		case at.Slot == 0 && at.Sequence > 0: // it was the lowest, so its floor is the last of the bucket below
			lost.floor = below.last
		}
	} else if at.Slot == 0 && at.Sequence == gone.lowest {
		lost.floor = gone.floor
	}
	if err := it.Error(); err != nil {
		return err
	}
	if alone {
		return bucket.ErrNotFound
	}
	if err := batch.Set(key, lost.appendTo(nil), nil); err != nil {
		return err
	}
	return countTombstone(s.db, batch, owner, at)
}

// countTombstone adds a tombstone to the count and the list of its owner. The caller holds the owner's lock. The batch has no other
// tombstone of the owner.
func countTombstone(db *DB, batch *pebble.Batch, owner message.UserID, t bucket.Tombstone) error {
	key := appendOwner(nil, spaceDeleted, partition.Of(owner, db.partitions), owner)
	total, err := totalOf(db, key)
	if err != nil {
		return err
	}
	if err := batch.Set(key, encodeTotal(total+1), nil); err != nil {
		return err
	}
	return batch.Set(appendPlace(key, t.Sequence, t.Slot), encodeID(t.ID), nil)
}

// totalOf returns the number of tombstones that is stored under a key.
func totalOf(db *DB, key []byte) (total int64, err error) {
	_, err = db.get(key, func(value []byte) error {
		total, err = parseTotal(value)
		return err
	})
	return total, err
}

func encodeTotal(total int64) []byte {
	return binary.BigEndian.AppendUint64([]byte{version}, uint64(total)) //nolint:gosec // a total is never negative
}

// Newest implements bucket.Store. It reads the deletions first.
func (s *Inbox) Newest(
	ctx context.Context, owner message.UserID, low uint32, limit int, from uint32,
) (buckets []bucket.Bucket, d bucket.Deletions, err error) {
	call, err := s.db.begin(ctx, "inbox.newest")
	if err != nil {
		return nil, d, err
	}
	defer call.end(ctx, &err)
	if d, err = s.deletions(owner, from); err != nil {
		return nil, d, err
	}
	if limit > 0 {
		section := bucket.Section{Owner: owner, Low: low, High: math.MaxUint32, Limit: limit, Bytes: bucket.ReadBytes}
		if buckets, err = s.read(section, bucket.AllFields); err != nil {
			return nil, d, fmt.Errorf("newest buckets of %s: %w", owner, err)
		}
	}
	return buckets, d, nil
}

func parseTotal(value []byte) (int64, error) {
	b, err := payload(spaceDeleted, value, 8)
	if err != nil {
		return 0, err
	}
	return int64(binary.BigEndian.Uint64(b)), nil //nolint:gosec // a total is never negative
}

// deletions returns the total and the tombstones as they are at one moment.
func (s *Inbox) deletions(owner message.UserID, from uint32) (d bucket.Deletions, err error) {
	prefix := s.prefix(spaceDeleted, owner)
	it, err := s.db.iterate(prefix)
	if err != nil {
		return bucket.Deletions{}, err
	}
	defer closeIter(it, &err)
	gone, err := s.removedAt(it, owner)
	if err != nil {
		return bucket.Deletions{}, err
	}
	if d.Ever = gone.tombstones; !it.First() {
		return d, it.Error()
	}
	value, err := it.ValueAndErr()
	if err != nil {
		return bucket.Deletions{}, fmt.Errorf("read from the store: %w", err)
	}
	if d.Total, err = parseTotal(value); err != nil {
		return bucket.Deletions{}, err
	}
	d.Ever += d.Total
	for found := it.SeekGE(appendPlace(bytes.Clone(prefix), from, 0)); found; found = it.Next() {
		t := bucket.Tombstone{}
		t.Sequence, t.Slot = placeOf(it.Key())
		value, err := it.ValueAndErr()
		if err != nil {
			return bucket.Deletions{}, fmt.Errorf("read from the store: %w", err)
		}
		if t.ID, err = parseID(spaceDeleted, value); err != nil {
			return bucket.Deletions{}, err
		}
		t.Position = s.size.Position(t.Sequence, t.Slot)
		d.Recent = append(d.Recent, t)
	}
	return d, it.Error()
}

// Deletions implements bucket.Store.
func (s *Inbox) Deletions(ctx context.Context, from []bucket.Head) ([]bucket.Deletions, error) {
	return each(ctx, s.db, "inbox.deletions", from, func(f bucket.Head) (bucket.Deletions, error) {
		d, err := s.deletions(f.Owner, f.Hint.Sequence)
		if err != nil {
			err = fmt.Errorf("deletions of %s: %w", f.Owner, err)
		}
		return d, err
	})
}

package pebblestore

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"github.com/fanmail/fanmail/internal/partition"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// Inbox stores the buckets. A bucket has no record of its own, only the records of its entries.
type Inbox struct {
	db    *DB
	locks stripes
	tails *tails
	// removes says that an inbox may have lost buckets. While it is false, no call looks for the record of removed buckets.
	removes atomic.Bool
}

var _ bucket.Store = (*Inbox)(nil)

func newInbox(db *DB, rememberedOwners int) *Inbox {
	locks := db.partitions * stripesPerPartition
	return &Inbox{db: db, locks: make(stripes, locks), tails: newTails(locks, rememberedOwners)}
}

// prefix returns the prefix of an owner's keys.
func (s *Inbox) prefix(space space, owner message.UserID) []byte {
	return appendOwner(nil, space, partition.Of(owner, s.db.partitions), owner)
}

// Persist implements bucket.Store.
func (s *Inbox) Persist(ctx context.Context) (err error) {
	call, err := s.db.begin(ctx, "inbox.persist")
	if err != nil {
		return err
	}
	defer call.end(ctx, &err)
	return s.db.sync()
}

// Heads implements bucket.Store.
func (s *Inbox) Heads(ctx context.Context, refs []bucket.Ref) (_ []bucket.Outline, err error) {
	call, err := s.db.begin(ctx, "inbox.heads")
	if err != nil {
		return nil, err
	}
	defer call.end(ctx, &err)
	it, err := s.db.iterate([]byte{byte(spaceInbox)})
	if err != nil {
		return nil, err
	}
	defer closeIter(it, &err)
	outlines := make([]bucket.Outline, len(refs))
	for i, ref := range refs {
		if outlines[i], err = head(it, s.prefix(spaceInbox, ref.Owner), ref.Sequence); err != nil {
			return nil, fmt.Errorf("head of %s: %w", ref.Owner, err)
		}
	}
	return outlines, nil
}

func head(it *pebble.Iterator, prefix []byte, from uint32) (bucket.Outline, error) {
	found := it.SeekLT(after(prefix))
	if !found || !bytes.HasPrefix(it.Key(), prefix) {
		return bucket.Outline{}, it.Error()
	}
	if sequence, _ := placeOf(it.Key()); sequence < from {
		return bucket.Outline{}, nil
	}
	return outline(it, prefix)
}

// outline returns the outline of the bucket whose highest record is at an iterator's position. The iterator moves to its lowest record, or
// below if that is not of slot 0.
func outline(it *pebble.Iterator, prefix []byte) (bucket.Outline, error) {
	sequence, _ := placeOf(it.Key())
	o := bucket.Outline{Sequence: sequence}
	for found := true; found && inBucket(it.Key(), prefix, sequence); found = it.Prev() {
		r, err := entryAt(it)
		if err != nil {
			return bucket.Outline{}, err
		}
		_, slot := placeOf(it.Key())
		if o.IDs == nil {
			o.Last, o.IDs = r.last, make([]message.ID, slot+1)
			o.Cap, o.Base = r.size.of(sequence)
		}
		if slot >= len(o.IDs) {
			return bucket.Outline{}, corrupt(spaceInbox)
		}
		o.IDs[slot], o.Floor = r.id, r.floor
		if slot == 0 {
			break // below, there may be many keys of buckets that were removed
		}
	}
	return o, it.Error()
}

// Range implements bucket.Store.
func (s *Inbox) Range(
	ctx context.Context, owner message.UserID, low, high uint32, limit int, field bucket.Field,
) (_ []bucket.Bucket, err error) {
	call, err := s.db.begin(ctx, "inbox.range")
	if err != nil {
		return nil, err
	}
	defer call.end(ctx, &err)
	return s.between(owner, low, high, limit, field)
}

func (s *Inbox) between(owner message.UserID, low, high uint32, limit int, field bucket.Field) (_ []bucket.Bucket, err error) {
	entry := (*entryRecord).entry
	if field != bucket.AllFields {
		entry = func(r *entryRecord) (bucket.Entry, error) { return r.only(field) }
	}
	prefix := s.prefix(spaceInbox, owner)
	it, err := s.db.iterate(prefix)
	if err != nil {
		return nil, err
	}
	defer closeIter(it, &err)
	gone, err := s.skipRemoved(it, owner)
	if err != nil {
		return nil, err
	}
	buckets, err := readDown(it, owner, appendPlace(prefix, high, pastSlots), low, limit, entry)
	if low < gone.lowest && len(buckets) < limit {
		buckets = append(buckets, gone.stub(owner))
	}
	if err != nil {
		return nil, fmt.Errorf("buckets %d to %d of %s: %w", low, high, owner, err)
	}
	return buckets, nil
}

// readDown returns at most limit buckets of an owner, from the one below a key down to low. entry returns what it reads of an entry.
func readDown(
	it *pebble.Iterator, owner message.UserID, below []byte, low uint32, limit int, entry func(*entryRecord) (bucket.Entry, error),
) ([]bucket.Bucket, error) {
	var buckets []bucket.Bucket
	for found := it.SeekLT(below); found; found = it.Prev() {
		sequence, slot := placeOf(it.Key())
		if sequence < low {
			break
		}
		r, err := entryAt(it)
		if err != nil {
			return nil, err
		}
		if n := len(buckets); n == 0 || buckets[n-1].Sequence != sequence {
			if n == limit {
				break
			}
			capacity, base := r.size.of(sequence)
			buckets = append(buckets, bucket.Bucket{
				Owner: owner, Sequence: sequence, Cap: capacity, Base: base, Last: r.last, Entries: make([]bucket.Entry, slot+1),
			})
		}
		b := &buckets[len(buckets)-1]
		if slot >= len(b.Entries) {
			return nil, corrupt(spaceInbox)
		}
		b.Floor = r.floor
		if r.expired && b.Purged.Less(r.id) {
			b.Purged = r.id
		}
		if b.Entries[slot], err = entry(&r); err != nil {
			return nil, err
		}
	}
	return buckets, it.Error()
}

// Overlapping implements bucket.Store.
func (s *Inbox) Overlapping(ctx context.Context, owner message.UserID, above uint32, id message.ID) (_ []bucket.Bucket, err error) {
	call, err := s.db.begin(ctx, "inbox.overlapping")
	if err != nil {
		return nil, err
	}
	defer call.end(ctx, &err)
	sequences, err := s.late(owner, above, id)
	if err != nil || len(sequences) == 0 {
		return nil, err
	}
	prefix := s.prefix(spaceInbox, owner)
	it, err := s.db.iterate(prefix)
	if err != nil {
		return nil, err
	}
	defer closeIter(it, &err)
	var buckets []bucket.Bucket
	for _, sequence := range sequences {
		found, err := readDown(it, owner, appendPlace(slices.Clip(prefix), sequence, pastSlots), sequence, 1, (*entryRecord).entry)
		if err != nil {
			return nil, fmt.Errorf("bucket %d of %s: %w", sequence, owner, err)
		}
		buckets = append(buckets, found...)
	}
	return buckets, nil
}

// late returns the buckets above a sequence that have a late id below the given one.
func (s *Inbox) late(owner message.UserID, above uint32, id message.ID) (sequences []uint32, err error) {
	prefix := s.prefix(spaceLate, owner)
	it, err := s.db.iterate(prefix)
	if err != nil {
		return nil, err
	}
	defer closeIter(it, &err)
	for found := it.SeekGE(appendBucket(slices.Clip(prefix), above)); found; found = it.Next() {
		sequence := bucketOf(it.Key())
		least, err := parseIDAt(spaceLate, it)
		if err != nil {
			return nil, err
		}
		if sequence > above && least.Less(id) {
			sequences = append(sequences, sequence)
		}
	}
	return sequences, it.Error()
}

// parseIDAt returns the message id in the value at an iterator's position.
func parseIDAt(space space, it *pebble.Iterator) (message.ID, error) {
	value, err := it.ValueAndErr()
	if err != nil {
		return message.ID{}, fmt.Errorf("read from the store: %w", err)
	}
	return parseID(space, value)
}

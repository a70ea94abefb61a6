package pebblestore

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"github.com/fanmail/fanmail/internal/partition"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// Inbox stores the buckets. A bucket has no record of its own, only the records of its entries.
type Inbox struct {
	db           *DB
	size         bucket.Size
	locks        stripes
	tails        *tails
	reservations reservations
	tableEntries int
	// removes says that an inbox may have lost buckets. While it is false, no call looks for the record of removed buckets.
	removes atomic.Bool
}

var _ bucket.Store = (*Inbox)(nil)

func newInbox(db *DB, opts Options) *Inbox {
	locks, size := db.partitions*stripesPerPartition, bucket.Size(opts.BucketSize)
	return &Inbox{db: db, size: size, locks: make(stripes, locks), tails: newTails(locks, opts.RememberedOwners), tableEntries: opts.TableEntries}
}

// Size implements bucket.Store.
func (s *Inbox) Size() bucket.Size { return s.size }

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
	s.db.sync()
	return nil
}

// Heads implements bucket.Store.
func (s *Inbox) Heads(ctx context.Context, hints []bucket.Head) (_ []bucket.Bucket, err error) {
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
	heads := make([]bucket.Bucket, len(hints))
	for i, h := range hints {
		prefix := s.prefix(spaceInbox, h.Owner)
		if !it.SeekLT(after(prefix)) || !bytes.HasPrefix(it.Key(), prefix) {
			continue
		}
		if sequence, _ := placeOf(it.Key()); sequence < h.Hint.Sequence {
			continue
		}
		if heads[i], err = readBucket(it, prefix, h.Owner, bucket.NoFields); err != nil {
			return nil, fmt.Errorf("head of %s: %w", h.Owner, err)
		}
	}
	return heads, it.Error()
}

// Range implements bucket.Store. It finds the late buckets first, and then reads each inbox as it is at one moment.
func (s *Inbox) Range(ctx context.Context, sections []bucket.Section, field bucket.Field) ([][]bucket.Bucket, error) {
	return each(ctx, s.db, "inbox.range", sections, func(section bucket.Section) ([]bucket.Bucket, error) {
		buckets, err := s.read(section, field)
		if err != nil {
			err = fmt.Errorf("buckets %d to %d of %s: %w", section.Low, section.High, section.Owner, err)
		}
		return buckets, err
	})
}

// read returns the buckets of a section.
func (s *Inbox) read(section bucket.Section, field bucket.Field) (buckets []bucket.Bucket, err error) {
	var late []uint32
	if !section.Late.IsZero() {
		if late, err = s.late(section.Owner, section.High, section.Late); err != nil {
			return nil, err
		}
	}
	if section.Low > section.High && len(late) == 0 {
		return nil, nil
	}
	prefix := s.prefix(spaceInbox, section.Owner)
	it, err := s.db.iterate(prefix)
	if err != nil {
		return nil, err
	}
	defer closeIter(it, &err)
	gone, err := s.skipRemoved(it, section.Owner)
	if err != nil {
		return nil, err
	}
	for _, sequence := range slices.Backward(late) {
		if buckets, err = readDown(buckets, it, prefix, bucket.Section{Owner: section.Owner, Low: sequence, High: sequence}, field); err != nil {
			return nil, err
		}
	}
	above := len(buckets)
	if buckets, err = readDown(buckets, it, prefix, section, field); err != nil {
		return nil, err
	}
	ended := section.Limit > 0 && len(buckets)-above == section.Limit || section.Bytes > 0 && bucket.Bytes(buckets[above:]) >= section.Bytes
	if section.Low < gone.lowest && section.Low <= section.High && !ended {
		buckets = append(buckets, gone.stub(section.Owner, s.size))
	}
	return buckets, nil
}

// readDown appends the buckets of a section but for the late ones.
func readDown(buckets []bucket.Bucket, it *pebble.Iterator, prefix []byte, section bucket.Section, field bucket.Field) ([]bucket.Bucket, error) {
	found, above := it.SeekLT(appendPlace(slices.Clip(prefix), section.High, pastSlots)), len(buckets)
	for n := 0; found && (section.Limit == 0 || n < section.Limit) && (section.Bytes == 0 || bucket.Bytes(buckets[above:]) < section.Bytes); n++ {
		sequence, _ := placeOf(it.Key())
		if sequence < section.Low {
			break
		}
		b, err := readBucket(it, prefix, section.Owner, field)
		if err != nil {
			return nil, err
		}
		buckets = append(buckets, b)
		if found = it.Valid(); found && inBucket(it.Key(), prefix, sequence) {
			found = it.Prev()
		}
	}
	return buckets, it.Error()
}

// readBucket returns the bucket whose highest record is at an iterator's position. The iterator moves to its lowest record, or below if that is
// not of slot 0. It does not move below slot 0, where there may be many keys of buckets that were removed.
func readBucket(it *pebble.Iterator, prefix []byte, owner message.UserID, field bucket.Field) (b bucket.Bucket, err error) {
	sequence, slot := placeOf(it.Key())
	r, err := entryAt(it)
	if err != nil {
		return b, err
	}
	b = bucket.Bucket{Outline: bucket.Outline{Sequence: sequence, Slots: slot + 1, Floor: r.floor, Last: r.last}, Owner: owner}
	if field == bucket.NoEntries {
		if slot > 0 && it.SeekGE(appendPlace(slices.Clip(prefix), sequence, 0)) {
			r, err = entryAt(it)
			b.Floor = r.floor
		}
		return b, err
	}
	b.Entries = make([]bucket.Entry, slot+1)
	for {
		b.Floor = r.floor
		if r.expired && b.Purged.Less(r.id) {
			b.Purged = r.id
		}
		if b.Entries[slot], err = r.only(field); err != nil {
			return b, err
		}
		if slot == 0 || !it.Prev() || !inBucket(it.Key(), prefix, sequence) {
			return b, it.Error()
		}
		_, slot = placeOf(it.Key())
		if r, err = entryAt(it); err != nil {
			return b, err
		}
	}
}

// late returns the buckets above a sequence that have a late id below the given one.
func (s *Inbox) late(owner message.UserID, high uint32, id message.ID) (sequences []uint32, err error) {
	prefix := s.prefix(spaceLate, owner)
	for key, value := range s.db.records(prefix, above(prefix, appendBucket(nil, high)), math.MaxInt, &err) {
		least, err := parseID(spaceLate, value)
		if err != nil {
			return nil, err
		}
		if least.Less(id) {
			sequences = append(sequences, bucketOf(key))
		}
	}
	return sequences, err
}

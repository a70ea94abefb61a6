package pebblestore

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/cockroachdb/pebble/v2"

	"github.com/fanmail/fanmail/internal/partition"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// removed is the record of an inbox that has lost its lowest buckets. It stands for all of them.
type removed struct {
	lowest uint32     // the lowest bucket that is left
	floor  message.ID // that of the lowest bucket
	// tombstones counts those that were removed.
	tombstones int64
}

const removedLen = 4 + idLen + 8

func (r removed) encode() []byte {
	b := binary.BigEndian.AppendUint32([]byte{version}, r.lowest)
	return appendCount(append(b, r.floor[:]...), r.tombstones)
}

func parseRemoved(value []byte) (r removed, err error) {
	b, err := payload(spaceRemoved, value, removedLen)
	if err != nil {
		return r, err
	}
	f := fields{rest: b}
	r = removed{lowest: f.uint32(), floor: f.id(), tombstones: f.count()}
	if f.short || len(f.rest) > 0 || r.lowest == 0 {
		return r, corrupt(spaceRemoved)
	}
	return r, nil
}

// stub returns the bucket that stands for those that were removed.
func (r removed) stub(owner message.UserID, size bucket.Size) bucket.Bucket {
	return bucket.Bucket{Outline: bucket.Outline{Sequence: r.lowest - 1, Slots: int(size), Last: r.floor, Stub: true}, Owner: owner}
}

// removedBy returns the owner's record of removed buckets. It is zero if none was removed. A caller that holds no lock uses
// removedAt.
func (s *Inbox) removedBy(owner message.UserID) (r removed, err error) {
	return removedIn(s.db, partition.Of(owner, s.db.partitions), owner)
}

func removedIn(db *DB, partition int, owner message.UserID) (r removed, err error) {
	if !db.inbox.removes.Load() {
		return r, nil
	}
	_, err = db.get(appendOwner(nil, spaceRemoved, partition, owner), func(value []byte) error {
		r, err = parseRemoved(value)
		return err
	})
	return r, err
}

// removedAt returns the owner's record of removed buckets as it was when an iterator was made. So it fits the buckets that the iterator sees.
func (s *Inbox) removedAt(it *pebble.Iterator, owner message.UserID) (r removed, err error) {
	if !s.removes.Load() {
		return r, nil
	}
	prefix := s.prefix(spaceRemoved, owner)
	at, err := it.Clone(pebble.CloneOptions{IterOptions: &pebble.IterOptions{LowerBound: prefix, UpperBound: after(prefix)}})
	if err != nil {
		return r, fmt.Errorf("read from the store: %w", err)
	}
	defer closeIter(at, &err)
	if !at.First() {
		return r, at.Error()
	}
	value, err := at.ValueAndErr()
	if err != nil {
		return r, fmt.Errorf("read from the store: %w", err)
	}
	return parseRemoved(value)
}

// findRemoved finds out whether any inbox has lost buckets.
func (s *Inbox) findRemoved() (err error) {
	it, err := s.db.iterate([]byte{byte(spaceRemoved)})
	if err != nil {
		return err
	}
	defer closeIter(it, &err)
	s.removes.Store(it.First())
	return it.Error()
}

// Empty implements bucket.Store under the lock that a push takes. It removes buckets from the lowest one upward, in one batch with the owner's
// record, which says that they are gone. It does not wait for a sync.
func (s *Inbox) Empty(ctx context.Context, owner message.UserID, low, high uint32, purged message.ID) (freed bucket.Emptied, err error) {
	c, err := s.beginChange(ctx, "inbox.empty", owner)
	if err != nil {
		return freed, err
	}
	defer c.end(ctx, &err)
	e := emptier{s: s, owner: owner, purged: purged, batch: c.batch}
	if err = e.empty(low, high); err == nil {
		err = s.db.apply(e.batch)
	}
	if err != nil {
		return bucket.Emptied{}, fmt.Errorf("empty the buckets %d to %d of %s: %w", low, high, owner, err)
	}
	return e.freed, nil
}

// emptier makes the batch of one Empty.
type emptier struct {
	s      *Inbox
	owner  message.UserID
	purged message.ID
	batch  *pebble.Batch
	freed  bucket.Emptied
}

// emptied is what an emptier has seen of a bucket.
type emptied struct {
	sequence    uint32
	slots       int
	floor, last message.ID
	lowest      bool  // slot 0 was seen, so floor is known
	live        int   // entries with contents
	expired     int   // those of them that have expired
	bytes       int64 // of all records, with their keys
}

func (e *emptier) empty(low, high uint32) error {
	before, err := e.s.removedBy(e.owner)
	if err != nil {
		return err
	}
	if low = max(low, before.lowest); low > high {
		return nil
	}
	buckets, err := e.see(low, high)
	if err != nil {
		return err
	}
	gone := 0
	if low == before.lowest {
		gone = e.removable(buckets, low, high)
	}
	if gone > 0 {
		if err := e.remove(before, buckets[:gone], buckets[gone]); err != nil {
			return err
		}
	}
	for _, b := range buckets[gone:] {
		if b.sequence <= high && b.expired > 0 {
			if err := e.emptyPart(b); err != nil {
				return err
			}
		}
	}
	return nil
}

// see reads the buckets from low to high and, of the next one, the lowest record.
func (e *emptier) see(low, high uint32) (buckets []emptied, err error) {
	prefix := e.s.prefix(spaceInbox, e.owner)
	for key, value := range e.s.db.records(prefix, appendPlace(bytes.Clone(prefix), low, 0), math.MaxInt, &err) {
		r, err := parseEntry(value)
		if err != nil {
			return nil, err
		}
		sequence, slot := placeOf(key)
		if n := len(buckets); n == 0 || buckets[n-1].sequence != sequence {
			buckets = append(buckets, emptied{sequence: sequence})
		}
		b := &buckets[len(buckets)-1]
		if slot == 0 {
			b.floor, b.lowest = r.floor, true
		}
		b.slots, b.last = slot+1, r.last
		b.bytes += int64(len(key) + r.length())
		if !r.deleted && !r.expired {
			b.live++
			if !e.purged.Less(r.id) {
				b.expired++
			}
		}
		if sequence > high {
			break
		}
	}
	return buckets, err
}

// removable returns how many of the buckets, from low up, can be removed. Each is full, and its last and the floor of the next one are at or
// below the purge point. So the head stays.
func (e *emptier) removable(buckets []emptied, low, high uint32) (n int) {
	for n+1 < len(buckets) {
		b, above := buckets[n], buckets[n+1]
		switch {
		case b.sequence != low+uint32(n), above.sequence != b.sequence+1, b.sequence > high:
			return n
		case b.slots < int(e.s.size), e.purged.Less(b.last), !above.lowest, e.purged.Less(above.floor):
			return n
		}
		n++
	}
	return n
}

// remove adds to the batch what removes the lowest buckets: with their entries those records that find their late entries and tombstones.
func (e *emptier) remove(before removed, gone []emptied, lowest emptied) error {
	e.s.removes.Store(true) // before any reader can miss the buckets
	first := gone[0].sequence
	prefix := e.s.prefix(spaceInbox, e.owner)
	if _, err := e.drop(appendPlace(bytes.Clone(prefix), first, 0), appendPlace(bytes.Clone(prefix), lowest.sequence, 0)); err != nil {
		return err
	}
	prefix = e.s.prefix(spaceLate, e.owner)
	if _, err := e.drop(appendBucket(bytes.Clone(prefix), first), appendBucket(bytes.Clone(prefix), lowest.sequence)); err != nil {
		return err
	}
	total := e.s.prefix(spaceDeleted, e.owner)
	tombstones, err := e.drop(appendPlace(bytes.Clone(total), first, 0), appendPlace(bytes.Clone(total), lowest.sequence, 0))
	if err != nil {
		return err
	}
	if tombstones > 0 {
		left, err := totalOf(e.s.db, total)
		if err != nil {
			return err
		}
		if err := e.batch.Set(total, encodeTotal(left-tombstones), nil); err != nil {
			return err
		}
	}
	for _, b := range gone {
		e.freed.Add(bucket.Emptied{Buckets: 1, Stubs: 1, Entries: b.live, Bytes: b.bytes})
	}
	now := removed{lowest: lowest.sequence, floor: lowest.floor, tombstones: before.tombstones + tombstones}
	return e.batch.Set(e.s.prefix(spaceRemoved, e.owner), now.encode(), nil)
}

// drop deletes the keys of a range one by one. Ranges that are deleted at once would be fewer records. But Pebble sorts all of them in a
// memtable again after each new one, before the next read. With 20,000 of them, every push takes 20 ms.
func (e *emptier) drop(from, to []byte) (n int64, err error) {
	it, err := e.s.db.engine.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: to})
	if err != nil {
		return 0, fmt.Errorf("read from the store: %w", err)
	}
	defer closeIter(it, &err)
	for found := it.First(); found; found = it.Next() {
		value, err := it.ValueAndErr()
		if err != nil {
			return n, fmt.Errorf("read from the store: %w", err)
		}
		if err := e.batch.DeleteSized(it.Key(), uint32(len(value)), nil); err != nil { //nolint:gosec // an entry has at most 128 KiB
			return n, err
		}
		n++
	}
	return n, it.Error()
}

// emptyPart adds to the batch what empties the entries of a bucket that have expired. They keep the facts about the bucket.
func (e *emptier) emptyPart(b emptied) (err error) {
	prefix := appendBucket(e.s.prefix(spaceInbox, e.owner), b.sequence)
	for key, value := range e.s.db.records(prefix, prefix, math.MaxInt, &err) {
		r, err := parseEntry(value)
		if err != nil {
			return err
		}
		if r.deleted || r.expired || e.purged.Less(r.id) {
			continue
		}
		before := r.length()
		r.expire()
		if err := e.batch.Set(key, r.appendTo(nil), nil); err != nil {
			return err
		}
		e.freed.Bytes += int64(before - r.length())
	}
	e.freed.Add(bucket.Emptied{Buckets: 1, Entries: b.expired})
	return err
}

// skipRemoved bounds an iterator over an owner's keys, so that it does not step over the keys of buckets that were removed. It returns the
// record of these.
func (s *Inbox) skipRemoved(it *pebble.Iterator, owner message.UserID) (removed, error) {
	r, err := s.removedAt(it, owner)
	if err == nil && r.lowest > 0 {
		prefix := s.prefix(spaceInbox, owner)
		it.SetBounds(appendPlace(bytes.Clone(prefix), r.lowest, 0), after(prefix))
	}
	return r, err
}

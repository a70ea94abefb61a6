package pebblestore

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"

	"github.com/cespare/xxhash/v2"
	"github.com/cockroachdb/pebble/v2"

	"github.com/fanmail/fanmail/internal/partition"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

const (
	// ownersAtOnce bounds how long the locks of a large push are held: a push to a single owner that
	// waits for one of them waits about a millisecond.
	ownersAtOnce = 512
	// batchBytes bounds the memory of a large push. It is far below the size of a memtable, of which a batch
	// of half its size would become one of its own.
	batchBytes = 1 << 20
	// pushesPerTurn is after how many pushes, which take less than a millisecond, a large push lets other goroutines run. The runtime would
	// only interrupt it after ten, and a direct message waits for several such turns on its way.
	pushesPerTurn = 128
	// stripesPerPartition is so many that pushes to single owners rarely meet. Every partition has locks of its
	// own, so that large pushes into different ones never meet.
	stripesPerPartition = 64
)

// placed is a push with the place of its owner in the order of keys.
type placed struct {
	index     int
	partition int
	lock      uint64
	push      *bucket.Push
}

// place sorts pushes by the keys of their owners, so that reads and writes go through the database in its order.
func (s *Inbox) place(pushes []bucket.Push) []placed {
	work := make([]placed, len(pushes))
	for i := range pushes {
		owner := pushes[i].Owner
		p := partition.Of(owner, s.db.partitions)
		work[i] = placed{index: i, partition: p, lock: lockOf(p, owner), push: &pushes[i]}
	}
	byKey := func(x, y placed) int {
		if x.partition != y.partition {
			return cmp.Compare(x.partition, y.partition)
		}
		return cmp.Compare(x.push.Owner, y.push.Owner)
	}
	if !slices.IsSortedFunc(work, byKey) {
		slices.SortFunc(work, byKey)
	}
	return work
}

// lockOf returns which of the inbox's locks stands for an owner.
func lockOf(partition int, owner message.UserID) uint64 {
	// The low bits of the hash make the partition: these are others.
	within := (xxhash.Sum64String(string(owner)) >> 32) % stripesPerPartition
	return uint64(partition)*stripesPerPartition + within //nolint:gosec // a partition is not negative
}

// Push implements bucket.Store. A push whose least id is above its bucket's last, which is the rule, can neither
// be a duplicate nor late, and costs the search for the bucket's highest record and one write for each entry.
func (s *Inbox) Push(ctx context.Context, pushes []bucket.Push) ([]bucket.Outcome, error) {
	if err := s.db.begin(ctx); err != nil {
		return nil, err
	}
	defer s.db.end()
	outcomes := make([]bucket.Outcome, len(pushes))
	if len(pushes) == 0 {
		return outcomes, nil
	}
	if len(pushes) >= bulkPushes {
		if err := s.db.giveWay(ctx); err != nil {
			return nil, err
		}
	}
	if err := s.pushChunks(ctx, s.place(pushes), outcomes); err != nil {
		return nil, fmt.Errorf("push to %d inboxes: %w", len(pushes), err)
	}
	return outcomes, nil
}

// pushChunks carries out pushes, so many at a time that locks are not held for long.
func (s *Inbox) pushChunks(ctx context.Context, work []placed, outcomes []bucket.Outcome) error {
	p := pusher{db: s.db, tails: s.tails, encoder: newEncoder()}
	locks := s.locks.newSet()
	for chunk := range slices.Chunk(work, ownersAtOnce) {
		if err := ctx.Err(); err != nil {
			return err
		}
		clear(locks)
		for i := range chunk {
			s.locks.add(locks, chunk[i].lock)
		}
		s.locks.lock(locks)
		err := p.pushAll(chunk, outcomes)
		if err != nil {
			s.tails.forget(chunk)
		}
		s.locks.unlock(locks)
		if err != nil {
			return err
		}
	}
	return nil
}

// pusher carries out pushes, one after the other, and keeps memory between them.
type pusher struct {
	db      *DB
	tails   *tails
	encoder *bucket.Encoder[[]byte]
	encoded [][]byte
	key     []byte
	it      *pebble.Iterator
	batch   *pebble.Batch
	// fewer tells that the bucket that was looked at last had few records, or none.
	fewer bool
}

// pushAll carries out pushes whose owners' locks are held, a batch of them after the other.
func (p *pusher) pushAll(work []placed, outcomes []bucket.Outcome) error {
	for len(work) > 0 {
		n, err := p.pushBatch(work, outcomes)
		if err != nil {
			return err
		}
		work = work[n:]
	}
	return nil
}

// pushBatch carries out as many of the pushes as fit into a batch, and returns how many.
func (p *pusher) pushBatch(work []placed, outcomes []bucket.Outcome) (n int, err error) {
	// A new iterator each time. It must see what others wrote before the locks were taken. And one that does not see
	// the batch before would have to pass over all of its records to find out that an owner's inbox is empty.
	if p.it, err = p.db.iterate([]byte{byte(spaceInbox)}); err != nil {
		return 0, err
	}
	defer closeIter(p.it, &err)
	p.batch = p.db.engine.NewBatch()
	for n < len(work) && p.batch.Len() < batchBytes {
		if outcomes[work[n].index], err = p.push(&work[n]); err != nil {
			return n, err
		}
		if n++; n%pushesPerTurn == 0 {
			runtime.Gosched()
		}
	}
	return n, p.db.apply(p.batch)
}

// state is what a push has to know of the bucket that it goes onto.
type state struct {
	slots int
	last  message.ID
	// floor is left zero for a bucket that exists if the least id to push is above last, and so above floor.
	floor message.ID
}

func (p *pusher) push(w *placed) (bucket.Outcome, error) {
	push := w.push
	var refused bucket.Outcome
	var try bool
	var err error
	if p.encoded, refused, try, err = p.encoder.Prepare(push, p.encoded[:0]); err != nil || !try {
		return refused, err
	}
	p.key = appendOwner(p.key[:0], spaceInbox, w.partition, push.Owner)
	onto, applies, err := p.admit(w)
	if err != nil || !applies {
		return bucket.Outcome{Seen: bucket.Extent{Slots: onto.slots, Last: onto.last}}, err
	}
	p.tails.pushed(w, onto)
	return bucket.Outcome{Applied: true}, p.write(push, onto, w.partition)
}

// admit decides whether a push applies. It returns the bucket as it is before the push; after a refusal it may leave
// that out, where the appender would have to look anyway. p.key is the owner's prefix.
func (p *pusher) admit(w *placed) (onto state, applies bool, err error) {
	push := w.push
	onto, exists, known := p.tails.of(w)
	if !known {
		if onto, exists, err = p.look(push.Sequence); err != nil {
			return state{}, false, err
		}
	}
	switch {
	case exists:
	case push.Create:
		onto = state{last: push.Floor, floor: push.Floor}
	case push.Sequence > 0:
		return state{}, false, nil
	}
	least := push.Entries[0].ID
	if exists && push.Create { // two callers created the bucket, or the first one fell behind
		if floor, held, err := p.search(push); err != nil || held || floor != push.Floor {
			return state{}, false, err
		}
	}
	switch {
	case onto.slots+len(push.Entries) > bucket.Capacity:
		return onto, false, nil
	case onto.last.Less(least):
		return onto, true, nil
	case exists:
		var held bool
		if onto.floor, held, err = p.search(push); err != nil || held {
			return state{}, false, err
		}
	}
	return onto, !push.Guard || onto.floor.Less(least), nil
}

// few is how many records of a bucket are passed over sooner than that its highest one is searched for.
const few = 2

// look reads the highest record of a bucket. Where the last bucket had few records, or none, it is likely that this one, which comes
// soon after it in the order of owners, has few as well: then it goes forward to the lowest record, which Pebble finds from
// where it is, and on to the highest. Otherwise it searches for the highest, which costs twice as much.
func (p *pusher) look(sequence uint32) (onto state, exists bool, err error) {
	if p.fewer {
		var passed bool
		if onto, exists, passed, err = p.pass(sequence); err != nil || passed {
			return onto, exists, err
		}
	}
	prefix := len(p.key)
	p.key = appendPlace(p.key, sequence, pastSlots)
	found := p.it.SeekLT(p.key)
	p.key = p.key[:prefix]
	if !found {
		p.fewer = true
		return state{}, false, p.it.Error()
	}
	key := p.it.Key()
	if !inBucket(key, p.key, sequence) {
		p.fewer = true
		return state{}, false, nil
	}
	r, err := entryAt(p.it)
	_, slot := placeOf(key)
	p.fewer = slot < few
	return state{slots: slot + 1, last: r.last}, true, err
}

// pass goes through the records of a bucket from the lowest one on. It gives up, and tells so, when there are more than few.
func (p *pusher) pass(sequence uint32) (onto state, exists, passed bool, err error) {
	prefix := len(p.key)
	p.key = appendPlace(p.key, sequence, 0)
	found := p.it.SeekGE(p.key)
	p.key = p.key[:prefix]
	for ; found && inBucket(p.it.Key(), p.key, sequence); found = p.it.Next() {
		_, slot := placeOf(p.it.Key())
		if slot >= few {
			return state{}, false, false, nil
		}
		r, err := entryAt(p.it)
		if err != nil {
			return state{}, false, false, err
		}
		onto, exists = state{slots: slot + 1, last: r.last}, true
	}
	return onto, exists, true, p.it.Error()
}

// search reads a bucket's records, and returns its floor and whether it holds any of the ids to push.
func (p *pusher) search(push *bucket.Push) (floor message.ID, held bool, err error) {
	prefix := len(p.key)
	p.key = appendPlace(p.key, push.Sequence, 0)
	found := p.it.SeekGE(p.key)
	p.key = p.key[:prefix]
	for ; found && inBucket(p.it.Key(), p.key, push.Sequence); found = p.it.Next() {
		r, err := entryAt(p.it)
		if err != nil {
			return message.ID{}, false, err
		}
		if _, slot := placeOf(p.it.Key()); slot == 0 {
			floor = r.floor
		}
		_, held := slices.BinarySearchFunc(push.Entries, r.id, func(e bucket.Entry, id message.ID) int { return e.ID.Compare(id) })
		if held {
			return floor, true, nil
		}
	}
	return floor, false, p.it.Error()
}

// write adds the records of a push that applies to the batch. p.key is the owner's prefix.
func (p *pusher) write(push *bucket.Push, onto state, partition int) error {
	prefix := len(p.key)
	last, late := onto.last, message.ID{}
	for i := range push.Entries {
		r := entryRecord{id: push.Entries[i].ID, recovered: push.Entries[i].Recovered, content: p.encoded[i]}
		slot := onto.slots + i
		if push.Entries[i].Deleted {
			r.bury()
			if err := countTombstone(p.db, p.batch, push.Owner, bucket.Tombstone{Sequence: push.Sequence, Slot: slot, ID: r.id}); err != nil {
				return err
			}
		}
		if slot == 0 {
			r.floor = onto.floor
		}
		if late.IsZero() && !onto.floor.Less(r.id) {
			late = r.id
		}
		if last.Less(r.id) {
			last = r.id
		}
		r.last = last
		p.key = appendPlace(p.key[:prefix], push.Sequence, slot)
		op := p.batch.SetDeferred(len(p.key), r.size())
		copy(op.Key, p.key)
		r.appendTo(op.Value[:0])
		if err := op.Finish(); err != nil {
			return err
		}
	}
	if late.IsZero() {
		return nil
	}
	return markLate(p.db, p.batch, partition, bucket.Ref{Owner: push.Owner, Sequence: push.Sequence}, late)
}

// markLate records that a bucket holds an id at or below its floor.
func markLate(db *DB, batch *pebble.Batch, partition int, at bucket.Ref, id message.ID) error {
	key := appendBucket(appendOwner(nil, spaceLate, partition, at.Owner), at.Sequence)
	lower := true
	_, err := db.get(key, func(value []byte) error {
		marked, err := parseID(spaceLate, value)
		lower = id.Less(marked)
		return err
	})
	if err != nil || !lower {
		return err
	}
	return batch.Set(key, encodeID(id), nil)
}

// inBucket reports whether a key of the inbox belongs to the bucket of the owner with that prefix.
func inBucket(key, prefix []byte, sequence uint32) bool {
	if len(key) != len(prefix)+placeLen || !bytes.Equal(key[:len(prefix)], prefix) {
		return false
	}
	of, _ := placeOf(key)
	return of == sequence
}

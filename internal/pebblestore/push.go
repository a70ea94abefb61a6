package pebblestore

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/fanmail/fanmail/internal/partition"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

const (
	// ownersAtOnce limits how long a large push holds locks: a push to a single owner waits about a millisecond for one of them.
	ownersAtOnce = 512
	// batchBytes limits the memory of a large push. It is far below half a memtable, because Pebble makes a separate memtable of a
	// larger batch.
	batchBytes = 1 << 20
	// pushesPerTurn is the number of pushes, which take less than a millisecond, after which a large push lets other goroutines
	// run. The runtime would interrupt it only after ten milliseconds, and a direct message waits for several such turns on its
	// way.
	pushesPerTurn = 128
	// stripesPerPartition is large, so that pushes to single owners rarely share a lock. Every partition has its own locks, so that
	// large pushes to different partitions never share one.
	stripesPerPartition = 64
)

// keyed is a push with the position of its owner in the order of keys.
type keyed struct {
	index     int
	partition int
	name      message.UserID
	lock      uint64
	owner     ownerHash
	push      *bucket.Push
	tail      tail // of the owner, before and then after the push
}

// byKey sorts pushes by the keys of their owners, so that reads and writes follow the order of the database. It fails if two have the same owner.
func (s *Inbox) byKey(pushes []bucket.Push) ([]keyed, error) {
	work := make([]keyed, len(pushes))
	for i := range pushes {
		work[i] = s.keyed(&pushes[i])
		work[i].index = i
	}
	if firstDisorder(work) < 0 {
		return work, nil
	}
	slices.SortFunc(work, func(x, y keyed) int { return keyOrder(&x, &y) })
	if i := firstDisorder(work); i >= 0 {
		return nil, fmt.Errorf("two pushes have the owner %q", work[i].name)
	}
	return work, nil
}

// firstDisorder returns the first index at which the key is not above the one before; -1 if there is none.
func firstDisorder(work []keyed) int {
	for i := 1; i < len(work); i++ {
		if keyOrder(&work[i-1], &work[i]) >= 0 {
			return i
		}
	}
	return -1
}

// keyOrder reads only what is never written: the owners of a reservation are compared while their tails change.
func keyOrder(x, y *keyed) int {
	if x.partition != y.partition {
		return cmp.Compare(x.partition, y.partition)
	}
	return cmp.Compare(x.name, y.name)
}

// keyed returns the position of a push. It needs only the owner.
func (s *Inbox) keyed(push *bucket.Push) keyed {
	hash := s.tails.hash(push.Owner)
	p := partition.OfHash(hash[0], s.db.partitions)
	// The low bits of the hash determine the partition, so the lock uses other bits.
	within := (hash[0] >> 32) % stripesPerPartition
	return keyed{push: push, partition: p, name: push.Owner, lock: uint64(p)*stripesPerPartition + within, owner: hash} //nolint:gosec // a partition is not negative
}

func (w keyed) stripe() uint64 { return w.lock }

// Push implements bucket.Store. Mostly the least id of a push is above its bucket's last, so it is neither a duplicate nor late. Such a
// push costs the search for the bucket's highest record and one write for each entry.
func (s *Inbox) Push(ctx context.Context, pushes []bucket.Push) (_ []bucket.Outcome, err error) {
	call, err := s.db.begin(ctx, "inbox.push")
	if err != nil {
		return nil, err
	}
	defer call.end(ctx, &err)
	outcomes := make([]bucket.Outcome, len(pushes))
	if len(pushes) == 0 {
		return outcomes, nil
	}
	if len(pushes) >= bulkPushes {
		if err := s.db.awaitMerges(ctx); err != nil {
			return nil, err
		}
	}
	work, err := s.byKey(pushes)
	if err == nil {
		err = s.pushSorted(ctx, work, outcomes)
	}
	if err != nil {
		return nil, fmt.Errorf("push to %d inboxes: %w", len(pushes), err)
	}
	s.db.metrics.Pushed(pushes, outcomes)
	return outcomes, nil
}

// pushSorted applies pushes. It writes large ones as tables, unless a checkpoint is being made. That copies the tables first and the log later,
// and could miss an entry in a table below one in the log.
func (s *Inbox) pushSorted(ctx context.Context, work []keyed, outcomes []bucket.Outcome) (err error) {
	p := &pusher{db: s.db, encoder: newEncoder(s.size)}
	if weightOf(work) >= s.tableEntries && s.db.ingesting.TryRLock() {
		if work, err = s.pushLarge(ctx, p, work, outcomes); err != nil {
			return err
		}
	}
	return s.pushChunks(ctx, p, work, outcomes)
}

// pushLarge writes the large pushes as tables, and returns the others. It unlocks ingesting.
func (s *Inbox) pushLarge(ctx context.Context, p *pusher, work []keyed, outcomes []bucket.Outcome) ([]keyed, error) {
	defer s.db.ingesting.RUnlock()
	large, rest, err := s.stretches(work)
	for _, one := range large {
		if err = cmp.Or(err, ctx.Err()); err == nil {
			err = s.pushTables(ctx, p, one, outcomes)
		}
	}
	return rest, err
}

// pushChunks applies pushes in chunks, so that each lock is held only briefly.
func (s *Inbox) pushChunks(ctx context.Context, p *pusher, work []keyed, outcomes []bucket.Outcome) error {
	for chunk := range slices.Chunk(work, ownersAtOnce) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := s.pushChunk(ctx, p, chunk, outcomes); err != nil {
			return err
		}
	}
	return nil
}

// pushChunk applies pushes under the locks of their owners. After an error or a panic, the tails of the owners are unknown.
func (s *Inbox) pushChunk(ctx context.Context, p *pusher, chunk []keyed, outcomes []bucket.Outcome) (err error) {
	locks, err := s.hold(ctx, chunk)
	if err != nil {
		return err
	}
	defer locks.unlock()
	applied := false
	defer func() { s.tails.settle(chunk, applied) }()
	s.tails.read(chunk)
	if err := p.pushAll(chunk, outcomes); err != nil {
		return err
	}
	applied = true
	return nil
}

// pusher applies pushes one after another, and reuses memory.
type pusher struct {
	db      *DB
	encoder *bucket.Encoder[[]byte]
	encoded [][]byte
	key     []byte
	// it is made when the first tail is not known: it must see the writes of other calls before the owners were taken.
	it walk
	// Either batch or tables is set, and gets the records.
	batch  *pebble.Batch
	tables *tables
	// fewer means that the previous bucket had at most few records.
	fewer bool
}

// pushAll applies pushes in batches. The caller holds the locks of the owners.
func (p *pusher) pushAll(work []keyed, outcomes []bucket.Outcome) error {
	for len(work) > 0 {
		n, err := p.pushBatch(work, outcomes)
		if err != nil {
			return err
		}
		work = work[n:]
	}
	return nil
}

// pushBatch applies the pushes that fit into a batch, and returns their number.
func (p *pusher) pushBatch(work []keyed, outcomes []bucket.Outcome) (n int, err error) {
	// Each batch needs a new iterator. An iterator that does not see the previous batch would have to skip all of its records to find that an
	// owner's inbox is empty.
	defer p.closeIter(&err)
	p.batch = p.db.engine.NewBatch()
	for n < len(work) && p.batch.Len() < batchBytes {
		if outcomes[work[n].index], _, err = p.push(&work[n]); err != nil {
			return n, err
		}
		n++
		p.turn(n)
	}
	return n, p.db.apply(p.batch)
}

// turn lets other goroutines run after every few pushes.
func (p *pusher) turn(n int) {
	if n%pushesPerTurn == 0 {
		runtime.Gosched()
	}
}

// openIter makes the iterator, unless there is one.
func (p *pusher) openIter() (err error) {
	if p.it.Iterator == nil {
		p.it.Iterator, err = p.db.iterate([]byte{byte(spaceInbox)})
	}
	return err
}

func (p *pusher) closeIter(err *error) {
	if p.it.Iterator != nil {
		closeIter(p.it.Iterator, err)
		p.it.Iterator = nil
	}
}

// state is the part of a bucket that a push to it needs.
type state struct {
	slots int
	last  message.ID
	// floor may be left zero if the bucket exists and the least id to push is above last, and so above floor.
	floor message.ID
}

// seen returns what a refused push tells about a bucket. It is zero for a bucket that does not exist.
func (s state) seen(sequence uint32) bucket.Outline {
	if s.slots == 0 {
		return bucket.Outline{}
	}
	return bucket.Outline{Sequence: sequence, Slots: s.slots, Last: s.last}
}

// push decides about a push and writes it, unless it is left: a table has entries only, and this push needs other records.
func (p *pusher) push(w *keyed) (outcome bucket.Outcome, left bool, err error) {
	push := w.push
	var refused bucket.Outcome
	var try bool
	if p.encoded, refused, try, err = p.encoder.Prepare(push, p.encoded[:0]); err != nil || !try {
		return refused, false, err
	}
	p.key = appendOwner(p.key[:0], spaceInbox, w.partition, push.Owner)
	onto, applies, err := p.admit(w)
	if err != nil || !applies {
		return bucket.Outcome{Seen: onto.seen(push.Sequence)}, false, err
	}
	if p.tables != nil && (push.Entries[0].Deleted || onto.late(push)) {
		return bucket.Outcome{}, true, nil
	}
	w.tail = onto.after(push)
	return bucket.Outcome{Applied: true}, false, p.write(push, onto, w.partition)
}

// late reports whether a push has an id at or below the floor of the bucket.
func (s state) late(push *bucket.Push) bool { return !s.floor.Less(push.Entries[0].ID) }

// admit decides whether a push applies. It returns the state of the bucket before the push. After a refusal, the state may be
// missing if the appender has to read the bucket anyway. p.key is the owner's prefix.
func (p *pusher) admit(w *keyed) (onto state, applies bool, err error) {
	push := w.push
	onto, exists, known := w.tail.onto(push.Sequence, p.db.inbox.size)
	if !known {
		if onto, exists, err = p.look(push.Sequence); err != nil {
			return state{}, false, err
		}
	}
	if !exists && !known && (push.Create || push.Sequence == 0) { // it may be a bucket that was removed
		if r, err := removedIn(p.db, w.partition, push.Owner); err != nil || push.Sequence < r.lowest {
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
	switch {
	case onto.slots+len(push.Entries) > int(p.db.inbox.size):
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

// few is the number of records up to which stepping through a bucket is cheaper than searching for its highest record.
const few = 12

// look reads the highest record of a bucket. If the previous bucket had at most few records, this one probably has few, too,
// because it follows soon in the order of owners. Then look steps from the lowest record, where the previous one mostly ended, to
// the highest. Otherwise it searches for the highest record, which costs as much as about a dozen steps.
func (p *pusher) look(sequence uint32) (onto state, exists bool, err error) {
	if err := p.openIter(); err != nil {
		return state{}, false, err
	}
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
	r, err := entryAt(p.it.Iterator)
	_, slot := placeOf(key)
	p.fewer = slot < few
	return state{slots: slot + 1, last: r.last}, true, err
}

// pass steps through the records of a bucket from the lowest one. If there are more than few, it stops and returns passed as false. Only damage of
// the highest record is an error.
func (p *pusher) pass(sequence uint32) (onto state, exists, passed bool, err error) {
	prefix := len(p.key)
	p.key = appendPlace(p.key, sequence, 0)
	found := p.it.seek(p.key)
	p.key = p.key[:prefix]
	for ; found && inBucket(p.it.Key(), p.key, sequence); found = p.it.Next() {
		_, slot := placeOf(p.it.Key())
		if slot >= few {
			return state{}, false, false, nil
		}
		var r entryRecord
		r, err = entryAt(p.it.Iterator)
		onto, exists = state{slots: slot + 1, last: r.last}, true
	}
	return onto, exists, true, cmp.Or(p.it.Error(), err)
}

// search reads a bucket's records. It returns the floor, and whether the bucket has any of the ids to push.
func (p *pusher) search(push *bucket.Push) (floor message.ID, held bool, err error) {
	if err := p.openIter(); err != nil {
		return message.ID{}, false, err
	}
	prefix := len(p.key)
	p.key = appendPlace(p.key, push.Sequence, 0)
	found := p.it.SeekGE(p.key)
	p.key = p.key[:prefix]
	for ; found && inBucket(p.it.Key(), p.key, push.Sequence); found = p.it.Next() {
		r, err := entryAt(p.it.Iterator)
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

// write adds the records of an admitted push to the batch or the tables. p.key is the owner's prefix.
func (p *pusher) write(push *bucket.Push, onto state, partition int) error {
	prefix := len(p.key)
	last := onto.last
	for i := range push.Entries {
		r := entryRecord{id: push.Entries[i].ID, recovered: push.Entries[i].Recovered, content: p.encoded[i]}
		slot := onto.slots + i
		if push.Entries[i].Deleted {
			r.toTombstone()
			if err := countTombstone(p.db, p.batch, push.Owner, bucket.Tombstone{Sequence: push.Sequence, Slot: slot, ID: r.id}); err != nil {
				return err
			}
		}
		if slot == 0 {
			r.floor = onto.floor
		}
		if last.Less(r.id) {
			last = r.id
		}
		r.last = last
		p.key = appendPlace(p.key[:prefix], push.Sequence, slot)
		if err := p.set(&r); err != nil {
			return err
		}
	}
	if !onto.late(push) {
		return nil
	}
	return markLate(p.db, p.batch, appendBucket(appendOwner(nil, spaceLate, partition, push.Owner), push.Sequence), push.Entries[0].ID)
}

// set adds a record under p.key.
func (p *pusher) set(r *entryRecord) error {
	if p.tables != nil {
		return p.tables.set(p.key, r)
	}
	op := p.batch.SetDeferred(len(p.key), r.length())
	copy(op.Key, p.key)
	r.appendTo(op.Value[:0])
	return op.Finish()
}

// markLate records under a key that a bucket has an id at or below its floor.
func markLate(db *DB, batch *pebble.Batch, key []byte, id message.ID) error {
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

// inBucket reports whether an inbox key belongs to a bucket of the owner with this prefix.
func inBucket(key, prefix []byte, sequence uint32) bool {
	if len(key) != len(prefix)+placeLen || !bytes.Equal(key[:len(prefix)], prefix) {
		return false
	}
	of, _ := placeOf(key)
	return of == sequence
}

package pebblestore

import (
	"math"
	"strings"

	"github.com/fanmail/fanmail/pkg/message"
)

// tail is the content of a bucket's highest record that a push in order needs.
type tail struct {
	last     message.ID
	sequence uint32
	base     uint32 // of a sized bucket
	slots    uint8
	capacity uint8 // of a sized bucket, or zero
}

func (t tail) size() size { return size{capacity: t.capacity, base: int64(t.base)} }

func (t tail) full() bool {
	capacity, _ := t.size().of(t.sequence)
	return int(t.slots) == capacity
}

// tails remembers, for a limited number of owners, the tail of the bucket of their last push. A search would read a separate block
// for each owner in every level of the database. That takes ten times as long as writing the entry.
//
// Each lock of the inbox has a map, which is used only under that lock. So the tails are never behind the database: no other
// process writes, and no other call writes to the owner meanwhile.
type tails struct {
	maps  []map[message.UserID]tail
	limit int // for each map
}

func newTails(locks, owners int) *tails {
	t := &tails{maps: make([]map[message.UserID]tail, locks), limit: (owners + locks - 1) / locks}
	for i := range t.maps {
		t.maps[i] = make(map[message.UserID]tail)
	}
	return t
}

// of returns the state of the bucket that a push goes to, and whether the bucket exists, if both are known. The bucket after a full
// one does not exist until a push creates it.
func (t *tails) of(w *placed) (onto state, exists, known bool) {
	tail, ok := t.maps[w.lock][w.push.Owner]
	switch {
	case ok && w.push.Sequence == tail.sequence:
		return state{slots: int(tail.slots), last: tail.last, size: tail.size()}, true, true
	case ok && w.push.Sequence == tail.sequence+1 && tail.full():
		return state{}, false, true
	default:
		return state{}, false, false
	}
}

// pushed records that a push to a bucket with this state was applied.
func (t *tails) pushed(w *placed, onto state) {
	m, owner := t.maps[w.lock], w.push.Owner
	if onto.size.base > math.MaxUint32 { // no inbox has so many entries
		delete(m, owner)
		return
	}
	now := tail{
		last: onto.last, sequence: w.push.Sequence, slots: uint8(onto.slots + len(w.push.Entries)), //nolint:gosec // at most MaxCapacity
		capacity: onto.size.capacity, base: uint32(onto.size.base), //nolint:gosec // see above
	}
	if newest := w.push.Entries[len(w.push.Entries)-1].ID; now.last.Less(newest) {
		now.last = newest
	}
	if _, known := m[owner]; !known {
		if len(m) >= t.limit {
			t.evict(m)
		}
		owner = message.UserID(strings.Clone(string(owner))) // the caller's string may share the memory of a larger one
	}
	m[owner] = now
}

// evict removes an arbitrary owner. Fan-out visits owners in a cycle, so the least recently used owner would be the next one to be
// needed.
func (*tails) evict(m map[message.UserID]tail) {
	for owner := range m {
		delete(m, owner)
		return
	}
}

// forget removes the owners of pushes whose result is unknown.
func (t *tails) forget(work []placed) {
	for i := range work {
		delete(t.maps[work[i].lock], work[i].push.Owner)
	}
}

package pebblestore

import (
	"strings"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// tail is what the highest record of a bucket tells, and all that a push in its turn has to know.
type tail struct {
	last     message.ID
	sequence uint32
	slots    uint8
}

// tails remembers, for a bounded number of owners, the tail of the bucket that was pushed onto last. Searching for it
// instead touches a block of its own for each owner in every level of the database, which takes ten times as
// long as writing the entry.
//
// There is a map for each lock of the inbox, used only while that is held, by which tails are never behind: no
// other process writes, and no other call writes to the owner meanwhile.
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

// of returns the state of the bucket that a push goes onto and whether it exists, if that is known. The one after a full
// bucket does not exist until a caller pushes onto it.
func (t *tails) of(w *placed) (onto state, exists, known bool) {
	tail, ok := t.maps[w.lock][w.push.Owner]
	switch {
	case ok && w.push.Sequence == tail.sequence:
		return state{slots: int(tail.slots), last: tail.last}, true, true
	case ok && w.push.Sequence == tail.sequence+1 && tail.slots == bucket.Capacity:
		return state{}, false, true
	default:
		return state{}, false, false
	}
}

// pushed takes note that a push onto a bucket in that state has been applied.
func (t *tails) pushed(w *placed, onto state) {
	m, owner := t.maps[w.lock], w.push.Owner
	now := tail{last: onto.last, sequence: w.push.Sequence, slots: uint8(onto.slots + len(w.push.Entries))} //nolint:gosec // at most Capacity
	if newest := w.push.Entries[len(w.push.Entries)-1].ID; now.last.Less(newest) {
		now.last = newest
	}
	if _, known := m[owner]; !known {
		if len(m) >= t.limit {
			t.evict(m)
		}
		owner = message.UserID(strings.Clone(string(owner))) // the caller's may be a piece of something large
	}
	m[owner] = now
}

// evict forgets some owner: which one is left to chance, since fan-out goes around in circles, and the least
// recently used is then the one that is needed next.
func (*tails) evict(m map[message.UserID]tail) {
	for owner := range m {
		delete(m, owner)
		return
	}
}

// forget drops what is remembered of owners of whom it is not known what has been written.
func (t *tails) forget(work []placed) {
	for i := range work {
		delete(t.maps[work[i].lock], work[i].push.Owner)
	}
}

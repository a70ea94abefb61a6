package pebblestore

import (
	"strings"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// tail is the content of a bucket's highest record that a push in order needs.
type tail struct {
	last     message.ID
	sequence uint32
	slots    uint8
}

// tails remembers, for a limited number of owners, the tail of the bucket of their last push. A search would read a separate block
// for each owner in every level of the database. That takes ten times as long as writing the entry.
type tails struct {
	shards []shard
	limit  int // of the owners of each shard
	size   bucket.Size
}

// shard holds the owners of one lock of the inbox. It is used only under that lock. So the tails are never behind the database: no other
// process writes, and no other call writes to the owner meanwhile.
type shard struct {
	tails map[message.UserID]tail
	// newcomers counts the owners who found the shard full.
	newcomers int
}

// newcomersPerPlace is how many newcomers a full shard counts until one of them gets the place of another owner. A fan-out that visits more
// owners than there are places would otherwise replace owners all the time, each before its next visit. An owner with frequent pushes
// soon has a place.
const newcomersPerPlace = 8

func newTails(locks, owners int, size bucket.Size) *tails {
	t := &tails{shards: make([]shard, locks), limit: (owners + locks - 1) / locks, size: size}
	for i := range t.shards {
		t.shards[i] = shard{tails: make(map[message.UserID]tail)}
	}
	return t
}

// of returns the state of the bucket that a push goes to, and whether the bucket exists, if both are known. The bucket after a full
// one does not exist until a push creates it.
func (t *tails) of(w *keyed) (onto state, exists, known bool) {
	s := &t.shards[w.lock]
	tail, ok := s.tails[w.push.Owner]
	if !ok {
		return state{}, false, false
	}
	switch {
	case w.push.Sequence == tail.sequence:
		return state{slots: int(tail.slots), last: tail.last}, true, true
	case w.push.Sequence == tail.sequence+1 && int(tail.slots) == int(t.size):
		return state{}, false, true
	default:
		return state{}, false, false
	}
}

// pushed records that a push to a bucket with this state was applied.
func (t *tails) pushed(w *keyed, onto state) {
	s, owner := &t.shards[w.lock], w.push.Owner
	now := tail{
		last: onto.last, sequence: w.push.Sequence, slots: uint8(onto.slots + len(w.push.Entries)), //nolint:gosec // at most MaxCapacity
	}
	if newest := w.push.Entries[len(w.push.Entries)-1].ID; now.last.Less(newest) {
		now.last = newest
	}
	if _, known := s.tails[owner]; !known {
		if len(s.tails) >= t.limit && !s.replace() {
			return
		}
		owner = message.UserID(strings.Clone(string(owner))) // the caller's string may share the memory of a larger one
	}
	s.tails[owner] = now
}

// replace removes an arbitrary owner, if it is a newcomer's turn to get a place.
func (s *shard) replace() bool {
	if s.newcomers++; s.newcomers%newcomersPerPlace != 0 {
		return false
	}
	for owner := range s.tails {
		delete(s.tails, owner)
		break
	}
	return true
}

// forget removes the owners of pushes whose result is unknown.
func (t *tails) forget(work []keyed) {
	for i := range work {
		delete(t.shards[work[i].lock].tails, work[i].push.Owner)
	}
}

package pebblestore

import (
	"hash/maphash"

	"github.com/fanmail/fanmail/internal/partition"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// tails remembers, for a limited number of owners, the tail of the bucket of their last push: the content of the bucket's highest record that a
// push in order needs. A search would read a separate block for each owner in every level of the database. That takes ten times as long as
// writing the entry.
type tails struct {
	shards []shard
	limit  int // of the owners of each shard
	size   bucket.Size
	seed   maphash.Seed
}

// ownerHash stands for an owner: the hash of their partition, and one that differs between processes. Two owners with the same would share a
// tail. Nobody can choose names so that the second hash is the same, and by chance 128 bits never are.
type ownerHash [2]uint64

// place holds the tail of an owner. It has no pointers, so that garbage collections pass over a million of them.
type place struct {
	owner    ownerHash
	last     message.ID
	sequence uint32
	slots    uint8 // 0 if the place is free
}

// shard holds the owners of one lock of the inbox. It is used only under that lock. So the tails are never behind the database: no other
// process writes, and no other call writes to the owner meanwhile.
type shard struct {
	// places is a hash table with open addressing: an owner is in the first place from their home on that was free. At least a quarter of it
	// is free. Its length is a power of two.
	places []place
	taken  int
	// newcomers counts the owners who found the shard full.
	newcomers int
}

const (
	// fewestPlaces is the length of the smallest table.
	fewestPlaces = 8
	// newcomersPerPlace is how many newcomers a full shard counts until one of them gets the place of another owner. A fan-out that visits more
	// owners than there are places would otherwise replace owners all the time, each before its next visit. An owner with frequent pushes
	// soon has a place.
	newcomersPerPlace = 8
)

func newTails(locks, owners int, size bucket.Size) *tails {
	return &tails{shards: make([]shard, locks), limit: (owners + locks - 1) / locks, size: size, seed: maphash.MakeSeed()}
}

func (t *tails) hash(owner message.UserID) ownerHash {
	return ownerHash{partition.Hash(owner), maphash.String(t.seed, string(owner))}
}

// of returns the state of the bucket that a push goes to, and whether the bucket exists, if both are known. The bucket after a full
// one does not exist until a push creates it.
func (t *tails) of(w *keyed) (onto state, exists, known bool) {
	tail := t.shards[w.lock].find(w.owner)
	switch {
	case tail == nil || tail.slots == 0:
		return state{}, false, false
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
	s := &t.shards[w.lock]
	tail := s.find(w.owner)
	if tail == nil || tail.slots == 0 {
		if s.taken >= t.limit && !s.replace(w.owner) {
			return
		}
		s.grow()
		s.taken++
		tail = s.find(w.owner)
	}
	*tail = place{
		owner: w.owner, last: onto.last, sequence: w.push.Sequence, slots: uint8(onto.slots + len(w.push.Entries)), //nolint:gosec // at most MaxCapacity
	}
	if newest := w.push.Entries[len(w.push.Entries)-1].ID; tail.last.Less(newest) {
		tail.last = newest
	}
}

// forget removes the owners of pushes whose result is unknown.
func (t *tails) forget(work []keyed) {
	for i := range work {
		s := &t.shards[work[i].lock]
		if tail := s.find(work[i].owner); tail != nil && tail.slots > 0 {
			s.remove(s.index(work[i].owner))
		}
	}
}

// home returns the index at which the search for an owner begins.
func (s *shard) home(owner ownerHash) int { return int(owner[1] & uint64(len(s.places)-1)) } //nolint:gosec // below the length

func (s *shard) next(i int) int { return (i + 1) & (len(s.places) - 1) }

// index returns the index of an owner, or of the free place where they would be.
func (s *shard) index(owner ownerHash) int {
	i := s.home(owner)
	for s.places[i].slots > 0 && s.places[i].owner != owner {
		i = s.next(i)
	}
	return i
}

// find returns the place at index; nil if the table is empty.
func (s *shard) find(owner ownerHash) *place {
	if len(s.places) == 0 {
		return nil
	}
	return &s.places[s.index(owner)]
}

// grow makes room for one more owner.
func (s *shard) grow() {
	if 4*(s.taken+1) <= 3*len(s.places) {
		return
	}
	before := s.places
	s.places = make([]place, max(fewestPlaces, 2*len(before)))
	for _, tail := range before {
		if tail.slots > 0 {
			s.places[s.index(tail.owner)] = tail
		}
	}
}

// replace removes an arbitrary owner, if it is a newcomer's turn to get a place.
func (s *shard) replace(newcomer ownerHash) bool {
	if s.newcomers++; s.newcomers%newcomersPerPlace != 0 {
		return false
	}
	i := s.home(newcomer)
	for s.places[i].slots == 0 {
		i = s.next(i)
	}
	s.remove(i)
	return true
}

// remove frees a place, and moves back the owners who were behind it because it was taken.
func (s *shard) remove(free int) {
	mask := len(s.places) - 1
	for i := s.next(free); s.places[i].slots > 0; i = s.next(i) {
		if (i-s.home(s.places[i].owner))&mask >= (i-free)&mask {
			s.places[free], free = s.places[i], i
		}
	}
	s.places[free] = place{}
	s.taken--
}

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
	seed   maphash.Seed
}

// ownerHash stands for an owner: the hash of their partition, and one that differs between processes. Two owners with the same would share a
// tail. Nobody can choose names so that the second hash is the same, and by chance 128 bits never are.
type ownerHash [2]uint64

// tail is what is known of an owner's bucket: nothing, if it has no slots.
type tail struct {
	last     message.ID
	sequence uint32
	slots    uint8
}

// place holds the tail of an owner. It has no pointers, so that garbage collections pass over a million of them.
type place struct {
	owner    ownerHash
	last     message.ID
	sequence uint32
	slots    uint8
}

func (p *place) free() bool { return p.slots == 0 }

func (p *place) tail() tail { return tail{last: p.last, sequence: p.sequence, slots: p.slots} }

func (p *place) set(t tail) { p.last, p.sequence, p.slots = t.last, t.sequence, t.slots }

// shard holds the owners of one lock of the inbox. It is used only under that lock. So the tails are never behind the database: no other
// process writes, and no other call writes to the owner meanwhile.
type shard struct {
	// places is a hash table with open addressing: an owner is in the first place from their home on that was free. At least a quarter of it
	// is free. Its length is a power of two.
	places       []place
	taken, limit int
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

func newTails(locks, owners int) *tails {
	t := &tails{shards: make([]shard, locks), seed: maphash.MakeSeed()}
	for i := range t.shards {
		t.shards[i].limit = (owners + locks - 1) / locks
	}
	return t
}

func (t *tails) hash(owner message.UserID) ownerHash {
	return ownerHash{partition.Hash(owner), maphash.String(t.seed, string(owner))}
}

// read notes with each owner what is known of their tail.
func (t *tails) read(work []keyed) {
	for i := range work {
		if p := t.shards[work[i].lock].find(work[i].owner); p != nil {
			work[i].tail = p.tail()
		}
	}
}

// onto returns the state of the bucket with a sequence, and whether the bucket exists, if both are known. The bucket after a full
// one does not exist until a push creates it.
func (t tail) onto(sequence uint32, size bucket.Size) (onto state, exists, known bool) {
	switch {
	case t.slots == 0:
		return state{}, false, false
	case sequence == t.sequence:
		return state{slots: int(t.slots), last: t.last}, true, true
	case sequence == t.sequence+1 && int(t.slots) == int(size):
		return state{}, false, true
	default:
		return state{}, false, false
	}
}

// after returns the tail after a push to a bucket with a state.
func (s state) after(push *bucket.Push) tail {
	t := tail{last: s.last, sequence: push.Sequence, slots: uint8(s.slots + len(push.Entries))} //nolint:gosec // at most MaxCapacity
	if newest := push.Entries[len(push.Entries)-1].ID; t.last.Less(newest) {
		t.last = newest
	}
	return t
}

// remember records the tail of an owner who pushed.
func (t *tails) remember(w *keyed) {
	if w.tail.slots == 0 {
		return
	}
	if p := t.shards[w.lock].claim(w.owner); p != nil {
		p.set(w.tail)
	}
}

// settle remembers the tails of owners after their pushes were tried, and forgets them otherwise, also after a panic.
func (t *tails) settle(work []keyed, tried bool) {
	remembered := false
	defer func() {
		if !remembered {
			t.forget(work)
		}
	}()
	if tried {
		for i := range work {
			t.remember(&work[i])
		}
		remembered = true
	}
}

// forget removes the owners of pushes whose result is unknown.
func (t *tails) forget(work []keyed) {
	for i := range work {
		s := &t.shards[work[i].lock]
		if p := s.find(work[i].owner); p != nil && !p.free() {
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
	for !s.places[i].free() && s.places[i].owner != owner {
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

// claim returns the owner's place, or a new one, which is free until the caller fills it. It is nil if the shard is full.
func (s *shard) claim(owner ownerHash) *place {
	if p := s.find(owner); p != nil && !p.free() {
		return p
	}
	if s.taken >= s.limit && !s.replace(owner) {
		return nil
	}
	s.grow()
	s.taken++
	p := s.find(owner)
	p.owner = owner
	return p
}

// grow makes room for one more owner.
func (s *shard) grow() {
	if 4*(s.taken+1) <= 3*len(s.places) {
		return
	}
	before := s.places
	s.places = make([]place, max(fewestPlaces, 2*len(before)))
	for _, p := range before {
		if !p.free() {
			s.places[s.index(p.owner)] = p
		}
	}
}

// replace removes an arbitrary owner, if it is a newcomer's turn to get a place.
func (s *shard) replace(newcomer ownerHash) bool {
	if s.newcomers++; s.newcomers%newcomersPerPlace != 0 {
		return false
	}
	i := s.home(newcomer)
	for range s.places {
		if !s.places[i].free() {
			s.remove(i)
			return true
		}
		i = s.next(i)
	}
	return false
}

// remove frees a place, and moves back the owners who were behind it because it was taken.
func (s *shard) remove(free int) {
	mask := len(s.places) - 1
	for i := s.next(free); !s.places[i].free(); i = s.next(i) {
		if (i-s.home(s.places[i].owner))&mask >= (i-free)&mask {
			s.places[free], free = s.places[i], i
		}
	}
	s.places[free] = place{}
	s.taken--
}

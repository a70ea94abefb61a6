package pebblestore

import (
	"math/bits"
	"sync"

	"github.com/cespare/xxhash/v2"

	"github.com/fanmail/fanmail/pkg/message"
)

// stripes is a table of locks. Several owners, users or messages share a lock.
type stripes []sync.Mutex

// stripeSet is the set of locks that a call needs, one bit for each.
type stripeSet []uint64

func (s stripes) newSet() stripeSet { return make(stripeSet, (len(s)+63)/64) }

// add adds the lock of a hash to a set.
func (s stripes) add(set stripeSet, hash uint64) {
	i := hash % uint64(len(s))
	set[i/64] |= 1 << (i % 64)
}

// heldLocks are the locks that a call holds. The call defers unlock, so a panic releases them too.
type heldLocks struct {
	stripes stripes
	set     stripeSet
}

// lock takes the locks of a set in ascending order, so that two calls cannot deadlock.
func (s stripes) lock(set stripeSet) heldLocks {
	for w, word := range set {
		for ; word != 0; word &= word - 1 {
			s[w*64+bits.TrailingZeros64(word)].Lock()
		}
	}
	return heldLocks{stripes: s, set: set}
}

// lockAll takes the locks of all keys.
func lockAll[K any](s stripes, keys []K, hash func(K) uint64) heldLocks {
	set := s.newSet()
	for _, key := range keys {
		s.add(set, hash(key))
	}
	return s.lock(set)
}

func userLock(user message.UserID) uint64 { return xxhash.Sum64String(string(user)) }

func idLock(id message.ID) uint64 { return xxhash.Sum64(id[:]) }

// unlock releases the locks. Further calls do nothing.
func (h *heldLocks) unlock() {
	for w, word := range h.set {
		for ; word != 0; word &= word - 1 {
			h.stripes[w*64+bits.TrailingZeros64(word)].Unlock()
		}
	}
	h.set = nil
}

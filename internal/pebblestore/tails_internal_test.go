package pebblestore

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// TestTails pushes to owners whose places collide, and forgets some. What is remembered is what the last push to the owner left.
func TestTails(t *testing.T) {
	t.Parallel()
	const owners, steps = 300, 30_000
	for limit, all := range map[int]bool{owners: true, 20: false, 1: false} {
		random := rand.New(rand.NewPCG(1, uint64(limit)))
		tails := newTails(1, limit)
		truth := make(map[ownerHash]tail)
		for range steps {
			// Few homes, so that owners take one another's, also around the end of the table.
			w := []keyed{{owner: ownerHash{random.Uint64N(owners/30) + 1, random.Uint64N(30) * 7}}}
			owner := w[0].owner
			tails.read(w)
			require.Contains(t, []tail{{}, truth[owner]}, w[0].tail)
			push := &bucket.Push{Entries: []bucket.Entry{{ID: message.ID{byte(random.Uint32()), byte(random.Uint32())}}}}
			onto, _, _ := truth[owner].onto(0, bucket.Capacity)
			if onto.slots == bucket.Capacity {
				onto = state{}
			}
			truth[owner], w[0].tail = onto.after(push), onto.after(push)
			applied := random.IntN(4) > 0
			if tails.settle(w, applied); !applied {
				delete(truth, owner)
			}
			require.LessOrEqual(t, tails.shards[0].taken, limit)
		}
		known := 0
		for owner, want := range truth {
			w := []keyed{{owner: owner}}
			if tails.read(w); w[0].tail.slots > 0 {
				known++
				require.Equal(t, want, w[0].tail)
			}
		}
		require.Equal(t, tails.shards[0].taken, known, "every place belongs to an owner who can be found")
		require.True(t, all == (known == len(truth)) && known > 0, known)
	}
}

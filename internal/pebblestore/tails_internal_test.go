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
		tails := newTails(1, limit, bucket.Capacity)
		truth := make(map[ownerHash]state)
		for range steps {
			// Few homes, so that owners take one another's, also around the end of the table.
			w := keyed{owner: ownerHash{random.Uint64N(owners/30) + 1, random.Uint64N(30) * 7}}
			if random.IntN(4) == 0 {
				tails.forget([]keyed{w})
				delete(truth, w.owner)
			} else {
				onto := truth[w.owner]
				if onto.slots == bucket.Capacity {
					onto = state{}
				}
				id := message.ID{byte(random.Uint32()), byte(random.Uint32())}
				w.push = &bucket.Push{Entries: []bucket.Entry{{ID: id}}}
				tails.pushed(&w, onto)
				if onto.slots++; onto.last.Less(id) {
					onto.last = id
				}
				truth[w.owner] = onto
			}
			require.LessOrEqual(t, tails.shards[0].taken, limit)
		}
		known := 0
		for owner, want := range truth {
			got, exists, found := tails.of(&keyed{owner: owner, push: &bucket.Push{}})
			if found {
				known++
				require.True(t, exists)
				require.Equal(t, want, got)
			}
		}
		require.Equal(t, tails.shards[0].taken, known, "every place belongs to an owner who can be found")
		require.True(t, all == (known == len(truth)) && known > 0, known)
	}
}

package pebblestore

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// TestTails pushes to owners whose places collide, some in flights, and forgets some. What is remembered is what the last push to the owner
// left, and an owner is in a flight until it lands.
func TestTails(t *testing.T) {
	t.Parallel()
	const owners, steps = 300, 30_000
	for limit, all := range map[int]bool{owners: true, 20: false, 1: false} {
		random := rand.New(rand.NewPCG(1, uint64(limit)))
		tails := newTails(1, limit)
		truth, flying := make(map[ownerHash]tail), make(map[ownerHash]keyed)
		for range steps {
			// Few homes, so that owners take one another's, also around the end of the table.
			w := keyed{owner: ownerHash{random.Uint64N(owners/30) + 1, random.Uint64N(30) * 7}}
			flight, flies := flying[w.owner]
			require.Equal(t, flies, tails.flies(&w))
			push := &bucket.Push{Entries: []bucket.Entry{{ID: message.ID{byte(random.Uint32()), byte(random.Uint32())}}}}
			pushed := func(from tail) tail {
				onto, _, _ := from.onto(0, bucket.Capacity)
				if onto.slots == bucket.Capacity {
					onto = state{}
				}
				return onto.after(push)
			}
			dice := random.IntN(4)
			switch {
			case dice == 0:
				tails.forget([]keyed{w})
				delete(truth, w.owner)
				delete(flying, w.owner)
			case flies && dice == 1: // a flight that has changed nothing
				tails.land(&flight)
				delete(flying, w.owner)
			case flies:
				flight.tail = pushed(truth[w.owner])
				tails.land(&flight)
				delete(flying, w.owner)
				truth[w.owner] = flight.tail
			case dice == 1:
				tails.board(&w)
				require.Contains(t, []tail{{}, truth[w.owner]}, w.tail)
				flying[w.owner] = w
			default:
				w.tail = pushed(truth[w.owner])
				tails.remember(&w)
				truth[w.owner] = w.tail
			}
			require.LessOrEqual(t, tails.shards[0].taken, limit)
		}
		for owner, flight := range flying {
			tails.land(&flight)
			require.False(t, tails.flies(&keyed{owner: owner}))
		}
		require.Empty(t, tails.shards[0].standing)
		known := 0
		for owner, want := range truth {
			if got := tails.of(&keyed{owner: owner}); got.slots > 0 {
				known++
				require.Equal(t, want, got)
			}
		}
		require.Equal(t, tails.shards[0].taken, known, "every place belongs to an owner who can be found")
		require.True(t, all == (known == len(truth)) && known > 0, known)
	}
}

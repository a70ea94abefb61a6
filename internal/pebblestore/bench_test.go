package pebblestore_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/fanmail/fanmail/internal/pebblestore"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/message/messagetest"
	"github.com/fanmail/fanmail/pkg/partition"
)

const (
	benchOwners  = 100_000
	benchBatch   = 1000
	benchWriters = 2
)

// owners returns the owners of each partition in ascending order.
func owners() [][]message.UserID {
	byPartition := make([][]message.UserID, partitions)
	for i := range benchOwners {
		owner := message.UserID(fmt.Sprintf("user-%08d", i))
		p := partition.Of(owner, partitions)
		byPartition[p] = append(byPartition[p], owner)
	}
	for _, p := range byPartition {
		slices.SortFunc(p, cmp.Compare)
	}
	return byPartition
}

// rounds calls write with batches of owners, b.N owners in all, as a fan-out does: writers take partitions in
// turn, and go through the owners of one from the first to the last.
func rounds(b *testing.B, write func(round int, owners []message.UserID) error) {
	b.Helper()
	byPartition := owners()
	var turn, delivered atomic.Int64
	b.ResetTimer()
	var group errgroup.Group
	for range benchWriters {
		group.Go(func() error {
			for {
				t := int(turn.Add(1) - 1)
				for batch := range slices.Chunk(byPartition[t%partitions], benchBatch) {
					if err := write(t/partitions, batch); err != nil {
						return err
					}
					if delivered.Add(int64(len(batch))) >= int64(b.N) {
						return nil
					}
				}
			}
		})
	}
	require.NoError(b, group.Wait())
	b.StopTimer()
	b.ReportMetric(float64(delivered.Load())/b.Elapsed().Seconds(), "deliveries/s")
}

func benchEntry(round int) bucket.Entry {
	m := messagetest.Message(round, "author")
	m.Body = strings.Repeat("abcdefghij", 20)
	return bucket.EntryOf(m)
}

// BenchmarkPush delivers one entry at a time to each of many owners.
func BenchmarkPush(b *testing.B) {
	opts := options(b, nil)
	opts.CacheBytes, opts.MemTableBytes = 0, 0
	db, err := pebblestore.Open(b.Context(), b.TempDir(), opts)
	require.NoError(b, err)
	defer func() { require.NoError(b, db.Close()) }()
	inbox := db.Inbox()
	rounds(b, func(round int, owners []message.UserID) error {
		entries := []bucket.Entry{benchEntry(round)}
		pushes := make([]bucket.Push, len(owners))
		for i, owner := range owners {
			pushes[i] = bucket.Push{Owner: owner, Sequence: uint32(round / bucket.Capacity), Entries: entries, Guard: true}
			if round > 0 && round%bucket.Capacity == 0 {
				pushes[i].Create, pushes[i].Floor = true, messagetest.ID(round-1)
			}
		}
		outcomes, err := inbox.Push(b.Context(), pushes)
		for i, o := range outcomes {
			if !o.Applied {
				return fmt.Errorf("push %d to %s was refused: %v", round, owners[i], o)
			}
		}
		return err
	})
}

// BenchmarkRaw writes the same bytes with Pebble alone.
func BenchmarkRaw(b *testing.B) {
	db, err := pebble.Open(b.TempDir(), pebblestore.EngineOptions(options(b, nil)))
	require.NoError(b, err)
	defer func() { require.NoError(b, db.Close()) }()
	rounds(b, func(round int, owners []message.UserID) error {
		value := pebblestore.EncodeEntry(benchEntry(round))
		batch := db.NewBatch()
		for _, owner := range owners {
			key := pebblestore.EntryKey(partition.Of(owner, partitions), owner, uint32(round/bucket.Capacity), round%bucket.Capacity)
			if err := batch.Set(key, value, nil); err != nil {
				return err
			}
		}
		return batch.Commit(pebble.Sync)
	})
}

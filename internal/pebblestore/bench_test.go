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

	"github.com/fanmail/fanmail/internal/partition"
	"github.com/fanmail/fanmail/internal/pebblestore"
	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
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

const (
	benchAuthors  = 1000
	benchMessages = 200 // of each
)

// authors returns a store with messages of 200 bytes by many authors to their followers, in turn, and the ranges of all.
func authors(b *testing.B) (*pebblestore.DB, []message.Range) {
	b.Helper()
	opts := options(b, nil)
	opts.CacheBytes, opts.MemTableBytes = 0, 0
	db, err := pebblestore.Open(b.Context(), b.TempDir(), opts)
	require.NoError(b, err)
	ranges := make([]message.Range, benchAuthors)
	for i := range ranges {
		ranges[i] = message.Range{From: message.UserID(fmt.Sprintf("author-%04d", i)).Source(), Before: message.MaxID}
	}
	body := strings.Repeat("abcdefghij", 20)
	for n := range benchMessages {
		messages := make([]message.Message, benchAuthors)
		for i := range messages {
			messages[i] = messagetest.Message(n*benchAuthors+i, ranges[i].From.Author())
			messages[i].Body = body
		}
		_, err := db.Messages().Insert(b.Context(), messages, messagetest.AnyTime)
		require.NoError(b, err)
	}
	return db, ranges
}

// BenchmarkToFollowers finds the newest and the oldest messages of those whom somebody follows, beside the cost of a search
// for each of them with Pebble alone.
func BenchmarkToFollowers(b *testing.B) {
	db, ranges := authors(b)
	defer func() { require.NoError(b, db.Close()) }()
	for _, order := range []message.Order{message.OldestFirst, message.NewestFirst} {
		for _, limit := range []int{50, 200} {
			b.Run(fmt.Sprintf("%s-%d", map[message.Order]string{message.OldestFirst: "oldest", message.NewestFirst: "newest"}[order], limit), func(b *testing.B) {
				for b.Loop() {
					got, err := db.Messages().ToFollowers(b.Context(), ranges, order, limit)
					require.NoError(b, err)
					require.Len(b, got, limit)
				}
			})
		}
	}
	b.Run("count", func(b *testing.B) {
		for b.Loop() {
			count, err := db.Messages().CountToFollowers(b.Context(), ranges)
			require.NoError(b, err)
			require.EqualValues(b, benchAuthors*benchMessages, count)
		}
	})
	seeks := func(b *testing.B, seek func(it *pebble.Iterator, r message.Range) bool) {
		b.Helper()
		for b.Loop() {
			it, err := db.Engine().NewIter(nil)
			require.NoError(b, err)
			for _, r := range ranges {
				require.True(b, seek(it, r))
			}
			require.NoError(b, it.Close())
		}
	}
	b.Run("raw-seeks-oldest", func(b *testing.B) {
		seeks(b, func(it *pebble.Iterator, r message.Range) bool {
			key, _ := pebblestore.AuthorKey(r.From.Author(), r.After)
			return it.SeekGE(key)
		})
	})
	b.Run("raw-seeks-newest", func(b *testing.B) {
		seeks(b, func(it *pebble.Iterator, r message.Range) bool {
			key, _ := pebblestore.AuthorKey(r.From.Author(), r.Before)
			return it.SeekLT(key)
		})
	})
}

package bench_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/config"
	"github.com/fanmail/fanmail/pkg/message"
)

func openRaw(b *testing.B) *pebble.DB {
	b.Helper()
	store := config.Default().Embedded
	db, err := pebble.Open(b.TempDir(), &pebble.Options{
		Logger: quiet{}, Cache: pebble.NewCache(int64(store.Cache)), MemTableSize: uint64(store.Memtable),
	})
	require.NoError(b, err)
	return db
}

// rawPages measures, as often as there are openings, what a first page cannot do without: a search for the newest
// message of each author, and then a read of as many messages as the page has.
func (p *past) rawPages(b *testing.B, size int) durations {
	b.Helper()
	db := openRaw(b)
	batch := db.NewBatch()
	for _, ref := range p.messages {
		require.NoError(b, batch.Set(append([]byte(ref.From), ref.ID[:]...), nil, nil))
		require.NoError(b, batch.Set(ref.ID[:], make([]byte, entryBytes), nil))
	}
	require.NoError(b, batch.Commit(pebble.Sync))
	require.NoError(b, db.Flush())
	var took durations
	for range sized(*openings) {
		start := time.Now()
		it, err := db.NewIter(&pebble.IterOptions{LowerBound: []byte("a"), UpperBound: []byte("b")})
		require.NoError(b, err)
		var ids []message.ID
		for _, author := range p.authors {
			if it.SeekLT(append([]byte(author), message.MaxID[:]...)) {
				ids = append(ids, message.ID(it.Key()[len(it.Key())-len(message.ID{}):]))
			}
		}
		require.NoError(b, it.Close())
		slices.SortFunc(ids, func(x, y message.ID) int { return y.Compare(x) })
		for _, id := range ids[:min(size, len(ids))] {
			_, closer, err := db.Get(id[:])
			require.NoError(b, err)
			require.NoError(b, closer.Close())
		}
		took = append(took, time.Since(start))
	}
	require.NoError(b, db.Close())
	return took
}

// entryBytes is about what the embedded store writes for an entry with a body of 200 bytes: id, author, body, header.
const entryBytes = 240

type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf(format, args...))
}

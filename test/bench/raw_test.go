package bench_test

import (
	"encoding/binary"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/stretchr/testify/require"
)

// rawWrites writes n records of the size of an entry, in the order of their owners, in batches of 1000 from two
// goroutines, synced, and returns how many it wrote a second: what Pebble does with the same data and nothing else.
func rawWrites(b *testing.B, n int) float64 {
	b.Helper()
	db, err := pebble.Open(b.TempDir(), &pebble.Options{
		Logger: quiet{}, Cache: pebble.NewCache(128 << 20), MemTableSize: 64 << 20,
	})
	require.NoError(b, err)
	const writers, batchSize = 2, 1000
	value := make([]byte, entryBytes)
	start := time.Now()
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for first := w * n / writers; first < (w+1)*n/writers; first += batchSize {
				batch := db.NewBatch()
				for i := first; i < min((w+1)*n/writers, first+batchSize); i++ {
					key := fmt.Appendf(nil, "i00user-%07d", i)
					key = binary.BigEndian.AppendUint32(append(key, 0), 0)
					if err := batch.Set(append(key, 0), value, nil); err != nil {
						panic(err)
					}
				}
				if err := batch.Commit(pebble.Sync); err != nil {
					panic(err)
				}
			}
		})
	}
	group.Wait()
	elapsed := time.Since(start)
	require.NoError(b, db.Close())
	return float64(n) / elapsed.Seconds()
}

// entryBytes is about what the embedded store writes for an entry with a body of 200 bytes: id, author, body, header.
const entryBytes = 240

type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf(format, args...))
}

package bench_test

import (
	"bytes"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// memory is how many bytes a process uses.
type memory struct {
	// heap is what live objects and those take that have not been swept, rss what of all is in memory. The caches and
	// memtables of Pebble are not in the heap.
	heap, rss uint64
}

// memoryNow returns what this process uses.
func memoryNow(b *testing.B) memory {
	b.Helper()
	heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(heap)
	return memory{heap: heap[0].Value.Uint64(), rss: residentBytes(b, os.Getpid())}
}

// residentBytes returns how much memory a process has, as Linux tells, or 0 elsewhere.
func residentBytes(b *testing.B, pid int) uint64 {
	b.Helper()
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	if err != nil {
		return 0
	}
	pages, err := strconv.ParseUint(string(bytes.Fields(status)[1]), 10, 64)
	require.NoError(b, err)
	return pages * uint64(os.Getpagesize())
}

// peak watches the memory of this process, which has given back what it does not need, until the function that it
// returns is called, which returns the most that there was.
func peak(b *testing.B) (stop func() memory) {
	b.Helper()
	debug.FreeOSMemory()
	most := memoryNow(b)
	done := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			now := memoryNow(b)
			most.heap, most.rss = max(most.heap, now.heap), max(most.rss, now.rss)
			select {
			case <-done:
				return
			case <-tick.C:
			}
		}
	})
	return func() memory {
		close(done)
		watching.Wait()
		return most
	}
}

func mebibytes(bytes uint64) float64 { return float64(bytes) / (1 << 20) }

package bench

import (
	"bytes"
	"os"
	"runtime/debug"
	"strconv"
	"sync"
	"time"
)

// residentBytes returns the resident memory of this process. It returns 0 on systems other than Linux.
func residentBytes() uint64 {
	status, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := bytes.Fields(status)
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseUint(string(fields[1]), 10, 64)
	if err != nil {
		return 0
	}
	return pages * uint64(os.Getpagesize()) //nolint:gosec // a page size is positive
}

// peak returns unused memory to the system, and begins to sample the resident memory of this process. The caller must call stop, which
// ends the sampling and returns the largest sample in MiB.
func peak() (stop func() float64) {
	debug.FreeOSMemory()
	most := residentBytes()
	done := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			most = max(most, residentBytes())
			select {
			case <-done:
				return
			case <-tick.C:
			}
		}
	})
	return func() float64 {
		close(done)
		watching.Wait()
		return float64(most) / (1 << 20)
	}
}

package bench_test

import (
	"sync"
	"sync/atomic"
)

// spread calls do n times, from so many goroutines.
func spread(n, goroutines int, do func() error) {
	var left atomic.Int64
	left.Store(int64(n))
	var group sync.WaitGroup
	for range goroutines {
		group.Go(func() {
			for left.Add(-1) >= 0 {
				if err := do(); err != nil {
					panic(err)
				}
			}
		})
	}
	group.Wait()
}

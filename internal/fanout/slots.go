package fanout

import (
	"context"
	"slices"
	"sync"
)

// workerSlots are the worker slots of a lane. A partition acquires a slot, first come first served, to look for a task. The slot is
// busy once the partition has one. While a slot is not busy, all partitions of the lane may wait for tasks.
type workerSlots struct {
	size int

	mu      sync.Mutex
	taken   int             // acquired or busy
	busy    int             // with a task
	waiting []chan struct{} // of the calls of acquire, oldest first; closed when the call has its slot
	free    context.Context //nolint:containedctx // ends when the last slot becomes busy
	fill    context.CancelFunc
}

func newWorkerSlots(size int) *workerSlots {
	s := &workerSlots{size: size}
	s.free, s.fill = context.WithCancel(context.Background())
	return s
}

// acquire waits for a slot. It returns false when ctx ends first.
func (s *workerSlots) acquire(ctx context.Context) bool {
	s.mu.Lock()
	if ctx.Err() != nil {
		s.mu.Unlock()
		return false
	}
	if s.taken < s.size && len(s.waiting) == 0 {
		s.taken++
		s.mu.Unlock()
		return true
	}
	granted := make(chan struct{})
	s.waiting = append(s.waiting, granted)
	s.mu.Unlock()
	select {
	case <-granted:
		return true
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.waiting, granted); i >= 0 {
		s.waiting = slices.Delete(s.waiting, i, i+1)
		return false
	}
	return true // it was granted at the same time
}

// work marks an acquired slot as busy. Taking the last slot ends the contexts of whileFree.
func (s *workerSlots) work() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy++; s.busy == s.size {
		s.fill()
	}
}

// release frees an acquired slot that is not busy.
func (s *workerSlots) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pass()
}

// done frees a busy slot.
func (s *workerSlots) done() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy == s.size {
		s.free, s.fill = context.WithCancel(context.Background())
	}
	s.busy--
	s.pass()
}

// pass gives a slot to the call of acquire that has waited longest.
func (s *workerSlots) pass() {
	if len(s.waiting) == 0 {
		s.taken--
		return
	}
	close(s.waiting[0])
	s.waiting = s.waiting[1:]
}

// whileFree returns a context that ends with ctx, or when all slots are busy. Call cancel after its last use.
func (s *workerSlots) whileFree(ctx context.Context) (_ context.Context, cancel context.CancelFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	bounded, end := context.WithCancel(ctx)
	stop := context.AfterFunc(s.free, end)
	return bounded, func() {
		stop()
		end()
	}
}

// inUse returns how many slots are busy.
func (s *workerSlots) inUse() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.busy
}

package mongostore

import (
	"context"
	"sync"

	"github.com/fanmail/fanmail/internal/panics"
	"github.com/fanmail/fanmail/pkg/message"
)

// shared runs work for all who wait for it at the same time. A caller never gets the result of a run that had begun before its call: those
// who come during a run wait for the next one, together.
type shared struct {
	work    func(context.Context) (message.ID, error)
	mu      sync.Mutex
	next    *run // has not begun; nil if nobody waits for one
	running bool
}

type run struct {
	done chan struct{}
	id   message.ID
	err  error
}

// do returns the result of a run that begins after the call.
func (s *shared) do(ctx context.Context) (message.ID, error) {
	r := s.begin() //nolint:contextcheck // the run is that of no caller
	select {
	case <-r.done:
		return r.id, r.err
	case <-ctx.Done():
		return message.ID{}, ctx.Err()
	}
}

// begin returns a run that begins after the call. It is the run of no caller, because others may wait for it: it does not end with a caller, and stalls with none.
func (s *shared) begin() *run {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.next
	if r == nil {
		r = &run{done: make(chan struct{})}
		s.next = r
	}
	if !s.running {
		s.running = true
		go s.runAll(context.Background())
	}
	return r
}

// runAll works until nobody waits.
func (s *shared) runAll(ctx context.Context) {
	for {
		s.mu.Lock()
		r := s.next
		s.next, s.running = nil, r != nil
		s.mu.Unlock()
		if r == nil {
			return
		}
		r.err = panics.Do(func() (err error) {
			r.id, err = s.work(ctx)
			return err
		})
		close(r.done)
	}
}

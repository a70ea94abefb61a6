package fanout

import (
	"context"
	"time"
)

const (
	// bulkStay is how long a worker stays with a partition of the bulk lane while there is more to do in it. A store that is kept in
	// the order of owners, by partition, is then written in its order, as far as a second goes: tables that do not overlap need
	// no merging.
	bulkStay = time.Second
	// seatGrace is how long a worker waits for the next batch of the partition that it stays with: the continuation is on the bus by
	// then, and has to be taken from there.
	seatGrace = 5 * time.Millisecond
)

// seat is a partition's claim to one of the workers of its lane. Only its partition's taker uses it.
type seat struct {
	// slots has an element for each worker that is busy, or kept.
	slots chan struct{}
	// stay is how long the worker stays while there is more to do; 0 means that it is free after each batch.
	stay time.Duration

	since time.Time   // when the worker came
	kept  *time.Timer // frees the worker unless it is stopped in time; nil while none is kept
}

// take waits for a worker, and tells whether there is one: there is none when intake has ended before.
func (s *seat) take(intake context.Context) bool {
	if s.kept != nil && s.kept.Stop() {
		s.kept = nil
		return true
	}
	s.kept = nil
	select {
	case s.slots <- struct{}{}:
		s.since = time.Now() //nolint:forbidigo // how long somebody waits is nothing to inject
		return true
	case <-intake.Done():
		return false
	}
}

// rise lets the worker go, at once or, if it may stay, unless the next batch comes soon.
func (s *seat) rise() {
	if s.stay == 0 || time.Since(s.since) > s.stay {
		<-s.slots
		return
	}
	s.kept = time.AfterFunc(seatGrace, func() { <-s.slots })
}

// leave lets a worker go that is kept.
func (s *seat) leave() {
	if s.kept != nil && s.kept.Stop() {
		<-s.slots
	}
}

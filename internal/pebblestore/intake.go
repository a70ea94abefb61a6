package pebblestore

import (
	"bytes"
	"context"
	"sync"
	"time"
)

const (
	// idlePerBusy is for how many times as long the engine takes over no tables after it has taken some over. While it does, every commit waits,
	// and a direct message needs several.
	idlePerBusy = 2
	// mostIdle bounds that on a disk that stalls.
	mostIdle = 100 * time.Millisecond
)

// intake hands tables to the engine: one call for all that came while the engine was busy or idle.
type intake struct {
	engine interface {
		Ingest(ctx context.Context, paths []string) error
	}
	write func(func() error)

	mu      sync.Mutex
	waiting []*handover
	led     bool // a call hands over, or will
	free    time.Time
}

// handover is the tables of a stretch, whose keys are between first and last.
type handover struct {
	paths       []string
	first, last []byte
	lead        chan struct{} // gets a value when this call is to hand over what waits
	done        chan error
}

// add makes tables a part of the store. They are atomic and durable. After an error, the engine may have taken them over or not.
func (in *intake) add(ctx context.Context, t *tables) error {
	h := &handover{paths: t.paths, first: t.first, last: t.last, lead: make(chan struct{}, 1), done: make(chan error, 1)}
	in.mu.Lock()
	in.waiting = append(in.waiting, h)
	if !in.led {
		in.led = true
		h.lead <- struct{}{}
	}
	in.mu.Unlock()
	for {
		select {
		case err := <-h.done:
			return err
		case <-h.lead:
			in.handOver(ctx)
		}
	}
}

// handOver hands over what waits, and then lets another call lead.
func (in *intake) handOver(ctx context.Context) {
	<-time.After(time.Until(in.free))
	some := in.next()
	var paths []string
	for _, h := range some {
		paths = append(paths, h.paths...)
	}
	began := time.Now() //nolint:forbidigo // measures a duration
	var err error
	in.write(func() error {
		err = in.engine.Ingest(context.WithoutCancel(ctx), paths)
		return nil // the engine goes on after an error, but not after a panic
	})
	ended := time.Now() //nolint:forbidigo // as above
	in.mu.Lock()
	in.free = ended.Add(min(mostIdle, idlePerBusy*ended.Sub(began)))
	if in.led = len(in.waiting) > 0; in.led {
		in.waiting[0].lead <- struct{}{}
	}
	in.mu.Unlock()
	for _, h := range some {
		h.done <- err
	}
}

// next takes the first of those that wait, and each further one that overlaps with none that it has taken: the engine refuses tables that do.
func (in *intake) next() (some []*handover) {
	in.mu.Lock()
	defer in.mu.Unlock()
	rest := in.waiting[:0]
	for _, h := range in.waiting {
		if overlaps(some, h) {
			rest = append(rest, h)
		} else {
			some = append(some, h)
		}
	}
	clear(in.waiting[len(rest):])
	in.waiting = rest
	return some
}

func overlaps(some []*handover, h *handover) bool {
	for _, o := range some {
		if bytes.Compare(h.first, o.last) <= 0 && bytes.Compare(o.first, h.last) <= 0 {
			return true
		}
	}
	return false
}

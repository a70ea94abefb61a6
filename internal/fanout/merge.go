package fanout

import (
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"slices"

	"github.com/fanmail/fanmail/pkg/message"
)

// position is how far a merge has come. Every recipient up to and including end is behind it. If toEnd is set, every
// recipient is behind it, and end means nothing.
type position struct {
	end   message.UserID
	toEnd bool
}

// chunk is a part of a merge: owners in ascending order, and for each the jobs that have an entry for them.
type chunk struct {
	owners []message.UserID
	// jobs has the jobs of all owners, one owner's after another's. The jobs of one owner are ascending by message id.
	jobs []*job
	// ends has for each owner where their jobs end in jobs.
	ends []int
	// bytes is the size of all entries.
	bytes int64

	// passed is how many users the merge has passed, whether they are owners or not.
	passed int
	// reached is the position behind the last of them.
	reached position
	// toBound is set if no user is left up to the bound of the merge.
	toBound bool
}

// jobsOf returns the jobs of the i-th owner.
func (c *chunk) jobsOf(i int) []*job {
	if i == 0 {
		return c.jobs[:c.ends[0]]
	}
	return c.jobs[c.ends[i-1]:c.ends[i]]
}

// last reports whether the merge has nothing behind the chunk.
func (c *chunk) last() bool { return c.reached.toEnd || c.toBound }

// merger merges several ascending streams into one. It stops at a bound, unless the bound is empty.
type merger struct {
	bound   message.UserID
	streams streamHeap
	// drained are the streams whose buffer is empty. The merge refills one only when it must compare its next user, so
	// nothing is read in vain at the end of a batch.
	drained []*stream
}

func newMerger(streams []*stream, bound message.UserID) *merger {
	return &merger{bound: bound, drained: streams}
}

// next merges up to limit further users. For each user and each job of the streams that the user is in, it asks
// addressed whether the job has an entry for the user.
func (m *merger) next(ctx context.Context, limit int, addressed func(*job, recipient) bool) (chunk, error) {
	var c chunk
	for c.passed < limit && len(c.jobs) < entriesPerChunk && c.bytes < bytesPerChunk {
		if err := m.refill(ctx); err != nil {
			return c, err
		}
		if m.atEnd(&c) {
			return c, nil
		}
		m.pass(&c, addressed)
	}
	m.atEnd(&c)
	return c, nil
}

// atEnd reports whether a chunk is the last one, and notes it in the chunk. It reads nothing: a drained stream may have
// further users.
func (m *merger) atEnd(c *chunk) bool {
	none := len(m.streams)+len(m.drained) == 0
	switch {
	case none && m.bound == "":
		c.reached.toEnd = true
	case none, len(m.drained) == 0 && m.bound != "" && m.streams.next() > m.bound:
		c.reached.end, c.toBound = m.bound, true
	}
	return c.last()
}

// pass adds the next user to a chunk.
func (m *merger) pass(c *chunk, addressed func(*job, recipient) bool) {
	if len(c.owners) == cap(c.owners) {
		n := len(m.streams[0].buffer) // mostly there is one stream
		c.owners, c.jobs, c.ends = slices.Grow(c.owners, n), slices.Grow(c.jobs, n), slices.Grow(c.ends, n)
	}
	c.passed++
	c.reached.end = m.streams.next()
	before := len(c.jobs)
	for len(m.streams) > 0 && m.streams.next() == c.reached.end {
		stream := m.streams[0]
		for _, j := range stream.jobs {
			if addressed(j, stream.buffer[0]) && !slices.Contains(c.jobs[before:], j) {
				c.jobs, c.bytes = append(c.jobs, j), c.bytes+j.size()
			}
		}
		if stream.buffer = stream.buffer[1:]; len(stream.buffer) > 0 {
			if len(m.streams) > 1 {
				heap.Fix(&m.streams, 0)
			}
			continue
		}
		heap.Pop(&m.streams)
		if !stream.ended {
			m.drained = append(m.drained, stream)
		}
	}
	if added := c.jobs[before:]; len(added) > 0 {
		slices.SortFunc(added, func(x, y *job) int { return cmp.Compare(x.order, y.order) })
		c.owners = append(c.owners, c.reached.end)
		c.ends = append(c.ends, len(c.jobs))
	}
}

// refill reads a page of each drained stream, so that its next user is known. A stream that cannot be read leaves the merge.
func (m *merger) refill(ctx context.Context) error {
	for _, s := range m.drained {
		more, err := s.fill(ctx)
		switch {
		case err != nil && passing(ctx, err):
			for _, j := range s.jobs {
				j.unread = err
			}
		case err != nil:
			return fmt.Errorf("read audience: %w", err)
		case more:
			heap.Push(&m.streams, s)
		}
	}
	m.drained = m.drained[:0]
	return nil
}

// streamHeap orders streams by the next user of each.
type streamHeap []*stream

// next returns the lowest of the next users.
func (h *streamHeap) next() message.UserID { return (*h)[0].buffer[0].user }

// Len implements heap.Interface.
func (h *streamHeap) Len() int { return len(*h) }

// Less implements heap.Interface.
func (h *streamHeap) Less(i, j int) bool { return (*h)[i].buffer[0].user < (*h)[j].buffer[0].user }

// Swap implements heap.Interface.
func (h *streamHeap) Swap(i, j int) { (*h)[i], (*h)[j] = (*h)[j], (*h)[i] }

// Push implements heap.Interface.
func (h *streamHeap) Push(x any) { *h = append(*h, x.(*stream)) }

// Pop implements heap.Interface.
func (h *streamHeap) Pop() any {
	last := len(*h) - 1
	s := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return s
}

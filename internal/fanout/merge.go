package fanout

import (
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"slices"

	"github.com/fanmail/fanmail/pkg/message"
)

// stretch is a part of a merge: owners in ascending order, and for each the jobs that have something for them.
type stretch struct {
	owners []message.UserID
	// jobs are those of all owners, one owner's after another's; each owner's are ascending by message id.
	jobs []*job
	// ends has for each owner where their jobs end in jobs.
	ends []int

	// passed is how many users were gone through, whether owners or not, and end the last of them. The end means nothing if toEnd
	// is set.
	passed int
	end    message.UserID
	// toEnd tells that there is nobody left in any stream, toBound that there is nobody left up to the bound.
	toEnd, toBound bool
}

// of returns the jobs of the i-th owner.
func (s *stretch) of(i int) []*job {
	if i == 0 {
		return s.jobs[:s.ends[0]]
	}
	return s.jobs[s.ends[i-1]:s.ends[i]]
}

// merger goes through several ordered streams as through one. It ends at a bound, if that is not empty.
type merger struct {
	bound   message.UserID
	streams streamHeap
	// drained are streams of which everything was gone through that was read. They are read on only when somebody has to be compared
	// with what follows, so that nothing is read in vain at the end of a batch.
	drained []*stream
}

func newMerger(streams []*stream, bound message.UserID) *merger {
	return &merger{bound: bound, drained: streams}
}

// next goes on through at most limit users. It asks pick, for everybody, which of the jobs of the streams they are in are for them.
func (m *merger) next(ctx context.Context, limit int, pick func(*job, recipient) bool) (stretch, error) {
	var s stretch
	for s.passed < limit && len(s.jobs) < limit*deliveriesPerOwner {
		if err := m.fill(ctx); err != nil {
			return s, err
		}
		if m.end(&s) {
			return s, nil
		}
		m.pass(&s, pick)
	}
	m.end(&s)
	return s, nil
}

// end tells whether a stretch is the last one, and notes it there. It knows only of what was read.
func (m *merger) end(s *stretch) bool {
	switch {
	case len(m.streams)+len(m.drained) == 0 && m.bound == "":
		s.toEnd = true
	case len(m.streams)+len(m.drained) == 0, len(m.drained) == 0 && m.bound != "" && m.streams.head() > m.bound:
		s.end, s.toBound = m.bound, true
	}
	return s.toEnd || s.toBound
}

// pass goes through the next user.
func (m *merger) pass(s *stretch, pick func(*job, recipient) bool) {
	s.passed++
	s.end = m.streams.head()
	before := len(s.jobs)
	for len(m.streams) > 0 && m.streams.head() == s.end {
		stream := m.streams[0]
		for _, j := range stream.jobs {
			if pick(j, stream.buffer[0]) && !slices.Contains(s.jobs[before:], j) {
				s.jobs = append(s.jobs, j)
			}
		}
		if stream.buffer = stream.buffer[1:]; len(stream.buffer) > 0 {
			heap.Fix(&m.streams, 0)
			continue
		}
		heap.Pop(&m.streams)
		if !stream.ended {
			m.drained = append(m.drained, stream)
		}
	}
	if picked := s.jobs[before:]; len(picked) > 0 {
		slices.SortFunc(picked, func(x, y *job) int { return cmp.Compare(x.order, y.order) })
		s.owners = append(s.owners, s.end)
		s.ends = append(s.ends, len(s.jobs))
	}
}

// fill reads on in the drained streams, so that the next user of each is known.
func (m *merger) fill(ctx context.Context) error {
	for _, s := range m.drained {
		more, err := s.fill(ctx)
		if err != nil {
			return fmt.Errorf("read audience: %w", err)
		}
		if more {
			heap.Push(&m.streams, s)
		}
	}
	m.drained = m.drained[:0]
	return nil
}

// streamHeap orders streams by the next user in each.
type streamHeap []*stream

func (h *streamHeap) head() message.UserID { return (*h)[0].buffer[0].user }

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

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

	// end is the last user gone through, whether an owner or not. It means nothing if toEnd is set.
	end message.UserID
	// toEnd tells that there is nobody left in any stream.
	toEnd bool
}

// of returns the jobs of the i-th owner.
func (s *stretch) of(i int) []*job {
	if i == 0 {
		return s.jobs[:s.ends[0]]
	}
	return s.jobs[s.ends[i-1]:s.ends[i]]
}

// merger goes through several ordered streams as through one.
type merger struct {
	streams streamHeap
	pending []*stream // not in the heap yet
}

func newMerger(streams []*stream) *merger { return &merger{pending: streams} }

// next goes on through at most limit users, and no further than bound, if that is not empty. It asks pick, for everybody,
// which of the jobs of the streams they are in are for them.
func (m *merger) next(ctx context.Context, limit int, bound message.UserID, pick func(*job, recipient) bool) (stretch, error) {
	var s stretch
	for _, stream := range m.pending {
		if err := m.add(ctx, stream); err != nil {
			return s, err
		}
	}
	m.pending = nil
	for seen := 0; ; seen++ {
		switch {
		case len(m.streams) == 0 && bound == "":
			s.toEnd = true
			return s, nil
		case len(m.streams) == 0, bound != "" && m.streams.head() > bound:
			s.end = bound
			return s, nil
		case seen >= limit, len(s.jobs) >= limit*deliveriesPerOwner:
			return s, nil
		}
		s.end = m.streams.head()
		before := len(s.jobs)
		for len(m.streams) > 0 && m.streams.head() == s.end {
			stream := heap.Pop(&m.streams).(*stream)
			for _, j := range stream.jobs {
				if pick(j, stream.buffer[0]) && !slices.Contains(s.jobs[before:], j) {
					s.jobs = append(s.jobs, j)
				}
			}
			stream.buffer = stream.buffer[1:]
			if err := m.add(ctx, stream); err != nil {
				return s, err
			}
		}
		if picked := s.jobs[before:]; len(picked) > 0 {
			slices.SortFunc(picked, func(x, y *job) int { return cmp.Compare(x.order, y.order) })
			s.owners = append(s.owners, s.end)
			s.ends = append(s.ends, len(s.jobs))
		}
	}
}

// add puts a stream into the heap unless it has come to its end.
func (m *merger) add(ctx context.Context, s *stream) error {
	more, err := s.fill(ctx)
	if err != nil {
		return fmt.Errorf("read audience: %w", err)
	}
	if more {
		heap.Push(&m.streams, s)
	}
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

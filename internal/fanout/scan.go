package fanout

import (
	"context"
	"slices"

	"github.com/fanmail/fanmail/internal/partition"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
)

const (
	// smallestPage is the fewest followers that a stream reads at a time.
	smallestPage = 64
	// largestPage is the most. The embedded store reads so many in two milliseconds.
	largestPage = 4000
	// listPage is how many named recipients a stream copies at a time.
	listPage = 16
)

// advance delivers the next part of the audiences to their recipients, and moves the scans of the jobs past it. The
// worker took the tasks and read their records before advance reads the audience. So the range that a scan starts in
// includes every user who began to follow before the message was stored.
func (b *batch) advance(ctx context.Context) error {
	moving, from, bound := b.selectMoving()
	if len(moving) == 0 {
		return nil
	}
	for _, j := range moving {
		j.scan = j.recorded.Join(from)
	}
	addressed := func(j *job, r recipient) bool {
		return j.scan.Ahead(r.user) && follow.For(j.message, r.user, r.edge)
	}
	reached, err := b.appendNext(ctx, newMerger(b.streams(moving, from), bound), addressed)
	if err != nil {
		return err
	}
	for _, j := range moving {
		switch to := j.scan.Miss(reached.end, reached.toEnd); {
		case j.unread != nil, j.missed != nil && to == j.recorded:
			b.comeBack(j)
		case j.missed != nil:
			b.move(j, to)
			b.progress = b.progress || to.Arc.Noted // otherwise it begins to go over an arc
		default:
			b.move(j, j.scan.Advance(reached.end, reached.toEnd, j.counts))
			b.progress = true
		}
	}
	return nil
}

// selectMoving returns the jobs whose scans move in this batch, their position, and the position at which they must
// stop because other scans wait there. An empty bound means that no other scan waits. The jobs of the waiting scans are
// postponed.
//
// All scans are usually at one position. After a crash they can be at several. Then the scans at the lowest position
// move up to the next position, until all are one group again. Scans that have not begun join the lowest. So a scan
// waits for at most one round.
func (b *batch) selectMoving() (moving []*job, from, bound message.UserID) {
	joined := false
	for _, j := range b.jobs {
		if j.recorded.Joined && (!joined || j.recorded.At < from) {
			joined, from = true, j.recorded.At
		}
	}
	for _, j := range b.jobs {
		if !j.recorded.Joined || j.recorded.At == from {
			moving = append(moving, j)
			continue
		}
		b.postponed[j.delivery.Sequence] = true
		if bound == "" || j.recorded.At < bound {
			bound = j.recorded.At
		}
	}
	return moving, from, bound
}

// recipient is a user in an audience. For a follower or a subscriber, edge is the edge that the stream has read.
type recipient struct {
	user message.UserID
	edge follow.Edge
}

func recipientsOf(users []message.UserID) []recipient {
	all := make([]recipient, len(users))
	for i, user := range users {
		all[i].user = user
	}
	return all
}

// stream reads one audience in ascending order, for all jobs that go to it.
type stream struct {
	jobs []*job
	// read returns at most limit recipients above a user, ascending. Fewer than limit mean that there are no more.
	read func(ctx context.Context, after message.UserID, limit int) ([]recipient, error)

	buffer  []recipient
	after   message.UserID // the last recipient that was read
	page    int            // how many recipients to read next
	maxPage int
	ended   bool
}

// fill reads the next page if the buffer is empty. It reports whether the buffer has recipients then. Pages start
// small and double, so little is read in vain of a small audience beside a large one.
func (s *stream) fill(ctx context.Context) (bool, error) {
	if len(s.buffer) == 0 && !s.ended {
		page, err := s.read(ctx, s.after, s.page)
		if err != nil {
			return false, err
		}
		s.buffer, s.ended = page, len(page) < s.page
		if len(page) > 0 {
			s.after = page[len(page)-1].user
		}
		s.page = min(2*s.page, s.maxPage)
	}
	return len(s.buffer) > 0, nil
}

// listStream returns the stream of those users above after that are in the partition of the batch. The users have to be
// ascending. The stream copies a page of them at a time, because a batch may hold many long lists.
func (b *batch) listStream(j *job, users []message.UserID, after message.UserID) *stream {
	page := make([]recipient, 0, min(listPage, len(users)))
	read := func(_ context.Context, after message.UserID, limit int) ([]recipient, error) {
		at, found := slices.BinarySearch(users, after)
		if found {
			at++
		}
		page = page[:0] // the stream has passed all of its recipients
		for ; at < len(users) && len(page) < limit; at++ {
			if partition.Of(users[at], b.opts.Partitions) == b.partition {
				page = append(page, recipient{user: users[at]})
			}
		}
		return page, nil
	}
	return &stream{jobs: []*job{j}, read: read, after: after, page: listPage, maxPage: listPage}
}

// streams returns the audiences of jobs above a position: one stream for each source, and one for each list of named
// recipients.
func (b *batch) streams(jobs []*job, after message.UserID) []*stream {
	var streams []*stream
	bySource := make(map[message.Source]*stream)
	for _, j := range jobs {
		if len(j.message.To) > 0 {
			streams = append(streams, b.listStream(j, j.message.To, after))
		}
		for _, source := range j.message.Sources() {
			s, ok := bySource[source]
			if !ok {
				s = &stream{read: b.followers(source), after: after}
				bySource[source] = s
				streams = append(streams, s)
			}
			s.jobs = append(s.jobs, j)
		}
	}
	// A page has at most as many recipients as a batch appends to, and at most largestPage. To read a few recipients in order, a store may have
	// to search all that follow.
	maxPage := min(b.opts.BatchOwners, largestPage)
	for _, s := range bySource {
		s.maxPage, s.page = maxPage, min(maxPage, max(smallestPage, maxPage/len(bySource)))
	}
	return streams
}

func (b *batch) followers(source message.Source) func(context.Context, message.UserID, int) ([]recipient, error) {
	return func(ctx context.Context, after message.UserID, limit int) ([]recipient, error) {
		var edges []follow.Edge
		err := b.reach.one(ctx, string(source), func(ctx context.Context) (err error) {
			edges, err = b.stores.Edges.Followers(ctx, source, b.partition, after, limit)
			return err
		})
		if err != nil {
			return nil, err
		}
		recipients := make([]recipient, len(edges))
		for i, e := range edges {
			recipients[i] = recipient{user: e.Follower, edge: e}
		}
		return recipients, nil
	}
}

package fanout

import (
	"context"

	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
)

// smallestChunk is the fewest recipients that are read at a time.
const smallestChunk = 64

// recipient is a place in an audience: a user, with their edge to the author where that is why they are in it.
type recipient struct {
	user message.UserID
	edge follow.Edge
}

// stream is one audience in ascending order, and the jobs that are for it.
type stream struct {
	jobs []*job
	// read returns recipients above a user, ascending, at most limit: fewer mean that there are no more.
	read func(ctx context.Context, after message.UserID, limit int) ([]recipient, error)

	buffer []recipient
	after  message.UserID // up to where it was read
	chunk  int            // how many to read next
	most   int            // how many to read at most
	ended  bool
}

// fill reads on if the buffer is empty, and tells whether there is something in it then. Chunks grow from small ones:
// of a small audience beside a large one little is read in vain.
func (s *stream) fill(ctx context.Context) (bool, error) {
	if len(s.buffer) == 0 && !s.ended {
		chunk, err := s.read(ctx, s.after, s.chunk)
		if err != nil {
			return false, err
		}
		s.buffer, s.ended = chunk, len(chunk) < s.chunk
		if len(chunk) > 0 {
			s.after = chunk[len(chunk)-1].user
		}
		s.chunk = min(2*s.chunk, s.most)
	}
	return len(s.buffer) > 0, nil
}

// listStream returns the stream of those of the ascending users who are above after.
func listStream(j *job, users []message.UserID, after message.UserID) *stream {
	s := &stream{jobs: []*job{j}, ended: true}
	for _, user := range users {
		if user > after {
			s.buffer = append(s.buffer, recipient{user: user})
		}
	}
	return s
}

// streams returns the audiences of jobs that scan, from a position on: one stream for all that go to the same author's
// followers, one for each list of named recipients.
func (b *batch) streams(jobs []*job, position message.UserID) []*stream {
	var streams []*stream
	byAuthor := make(map[message.UserID]*stream)
	for _, j := range jobs {
		if len(j.message.To) > 0 {
			named := partitionOf(j.message.To, b.partition, b.deliverer.opts.Partitions)
			streams = append(streams, listStream(j, named, position))
		}
		if !j.message.ToFollowers() {
			continue
		}
		s, ok := byAuthor[j.message.From]
		if !ok {
			s = &stream{read: b.followers(j.message.From), after: position}
			byAuthor[j.message.From] = s
			streams = append(streams, s)
		}
		s.jobs = append(s.jobs, j)
	}
	// As many at a time as a batch appends to: a store may have to go through all that follows to read a few in order.
	most := b.deliverer.opts.BatchOwners
	for _, s := range byAuthor {
		s.most, s.chunk = most, min(most, max(smallestChunk, most/len(byAuthor)))
	}
	return streams
}

func (b *batch) followers(author message.UserID) func(context.Context, message.UserID, int) ([]recipient, error) {
	return func(ctx context.Context, after message.UserID, limit int) ([]recipient, error) {
		edges, err := b.deliverer.stores.Edges.Followers(ctx, author, b.partition, after, limit)
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

package publish

import (
	"context"
	"fmt"

	"github.com/fanmail/fanmail/pkg/message"
)

const (
	// estimatePage is the number of followers in one read.
	estimatePage = 5000
	// estimateMost bounds the number of followers counted, because clients ask for estimates while the store is busy.
	estimateMost = 200_000
	// estimateFew is the smallest number of followers in one partition that Estimate takes as typical of all partitions.
	estimateFew = 1000
)

// Estimate returns the approximate number of a message's recipients: the users that it names and the current followers of its author.
// Users are spread evenly over the partitions, so Estimate counts the followers in one partition and multiplies. It stops
// at about 200,000 followers (estimateMost) in that partition, so the result is too low for authors with millions of followers.
func (r *Reporter) Estimate(ctx context.Context, m message.Message) (int64, error) {
	total := int64(len(m.To))
	if !m.ToFollowers() {
		return total, nil
	}
	for p := range r.partitions {
		n, err := r.followers(ctx, m.From, p)
		if err != nil {
			return 0, err
		}
		if p == 0 && n >= estimateFew {
			return total + n*int64(r.partitions), nil
		}
		total += n
	}
	return total, nil
}

// followers counts the followers of an author in a partition, up to a bound.
func (r *Reporter) followers(ctx context.Context, author message.UserID, p int) (n int64, err error) {
	for after := message.UserID(""); n < estimateMost; {
		edges, err := r.edges.Followers(ctx, author, p, after, estimatePage)
		if err != nil {
			return 0, fmt.Errorf("count followers of %s: %w", author, err)
		}
		for _, edge := range edges {
			if edge.Open() {
				n++
			}
		}
		if len(edges) < estimatePage {
			break
		}
		after = edges[len(edges)-1].Follower
	}
	return n, nil
}

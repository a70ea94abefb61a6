package publish

import (
	"context"
	"fmt"

	"github.com/fanmail/fanmail/pkg/message"
)

const (
	// estimatePage is how many followers are read at a time.
	estimatePage = 5000
	// estimateMost bounds how many followers of a partition are counted: an estimate is asked for while there is much to do.
	estimateMost = 200_000
	// estimateFew is how many followers a partition must have for the others to be taken to have as many.
	estimateFew = 1000
)

// Estimate returns about how many recipients a message has: those that it names, and as many as follow its author now. Users are
// spread evenly over the partitions, so that of an author with many followers the first partition tells the size of all. Of one with
// more than some millions it returns less than there are.
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

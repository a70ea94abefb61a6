package publish

import (
	"context"
	"fmt"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/fanmail/fanmail/internal/panics"
	"github.com/fanmail/fanmail/pkg/message"
)

const (
	// estimatePage is the number of followers in one read.
	estimatePage = 5000
	// estimateMost bounds the number of followers counted, because clients ask for estimates while the store is busy.
	estimateMost = 200_000
	// estimateFew is the smallest number of followers in one partition that Estimate takes as typical of all partitions.
	estimateFew = 1000
	// estimateAtOnce is how many sources of one message are counted at a time. A message to eight topics may have 64.
	estimateAtOnce = 8
)

// Estimate returns the approximate number of a message's recipients. It counts named users, the current followers of the author, and the
// current subscribers of the topics and their ancestors. A user in several of these groups counts several times. Users are spread evenly
// over the partitions, so Estimate counts the followers in one partition and multiplies. It stops at about 200,000 followers (estimateMost)
// in that partition, so the result is too low for authors with millions of followers.
func (r *Reporter) Estimate(ctx context.Context, m message.Message) (int64, error) {
	var total atomic.Int64
	total.Add(int64(len(m.To) + m.Blocked))
	group, counting := errgroup.WithContext(ctx)
	group.SetLimit(estimateAtOnce)
	for _, source := range m.Sources() {
		group.Go(func() (err error) {
			defer panics.Catch(&err)
			n, err := r.estimateSource(counting, source)
			total.Add(n)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return 0, err
	}
	return total.Load(), nil
}

func (r *Reporter) estimateSource(ctx context.Context, source message.Source) (total int64, err error) {
	for p := range r.opts.Partitions {
		n, err := r.followers(ctx, source, p)
		if err != nil {
			return 0, err
		}
		if p == 0 && n >= estimateFew {
			return n * int64(r.opts.Partitions), nil
		}
		total += n
	}
	return total, nil
}

// followers counts the followers or subscribers of a source in a partition, up to a bound.
func (r *Reporter) followers(ctx context.Context, source message.Source, p int) (n int64, err error) {
	for after := message.UserID(""); n < estimateMost; {
		edges, err := r.edges.Followers(ctx, source, p, after, estimatePage)
		if err != nil {
			return 0, fmt.Errorf("count followers of %s: %w", source, err)
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

package fanout

import (
	"context"

	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
)

// advance moves scans by what a batch carries. Their records are read, and the tasks taken, before the audience is read: so
// everybody who began to follow before a message was stored is in the range that its scan begins at.
func (b *batch) advance(ctx context.Context, jobs []*job) error {
	riders, position, bound := b.gather(jobs)
	if len(riders) == 0 {
		return nil
	}
	for _, j := range riders {
		j.scan = j.recorded.Join(position)
	}
	forThem := func(j *job, r recipient) bool {
		return j.scan.Ahead(r.user) && follow.For(j.message, r.user, r.edge)
	}
	end, toEnd, err := b.carry(ctx, newMerger(b.streams(riders, position), bound), forThem)
	if err != nil {
		return err
	}
	for _, j := range riders {
		b.move(j, j.scan.Advance(end, toEnd, j.delivered, j.skipped))
	}
	return nil
}

// gather returns the scans that move in this batch, the position they move from, and the position they may move to at
// most: where scans wait that are ahead of them. Those are left in the queue.
//
// There is one group as long as nothing goes wrong. After a crash there can be several. Then it is always the one at the
// lowest position that moves, up to the next one's, where they become one group again; scans that have not begun join
// it. Nobody waits for longer than one round.
func (b *batch) gather(jobs []*job) (riders []*job, position, bound message.UserID) {
	joined := false
	for _, j := range jobs {
		if j.recorded.Joined && (!joined || j.recorded.At < position) {
			joined, position = true, j.recorded.At
		}
	}
	for _, j := range jobs {
		if !j.recorded.Joined || j.recorded.At == position {
			riders = append(riders, j)
			continue
		}
		b.left[j.delivery.Sequence] = true
		if bound == "" || j.recorded.At < bound {
			bound = j.recorded.At
		}
	}
	return riders, position, bound
}

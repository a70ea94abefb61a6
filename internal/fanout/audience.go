package fanout

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fanmail/fanmail/internal/panics"
	"github.com/fanmail/fanmail/internal/partition"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
)

// audience is the part of a message's audience that routing needs: its lane, and its partitions.
type audience struct {
	lane event.Lane
	// recipients are all recipients by partition, ascending. They are nil outside the express lane.
	recipients map[int][]message.UserID
	// scanned are the partitions that tasks of the other lanes scan.
	scanned []int
}

// partitions returns the partitions that may hold a recipient.
func (a audience) partitions() []int {
	if a.lane != event.Express {
		return a.scanned
	}
	partitions := make([]int, 0, len(a.recipients))
	for p := range a.recipients {
		partitions = append(partitions, p)
	}
	return partitions
}

// audience measures the audience of a message. If the audience is small, it also reads the recipients.
func (r *Router) audience(ctx context.Context, m message.Message) (audience, error) {
	sources := m.Sources()
	if len(sources) == 0 {
		return r.named(m), nil
	}
	if !slices.ContainsFunc(sources, r.isLarge) {
		edges, small, err := r.edgesIfFew(ctx, m, sources)
		if err != nil {
			return audience{}, err
		}
		if small {
			return r.express(m, edges), nil
		}
	}
	lane, err := r.measureLane(ctx, sources)
	return audience{lane: lane, scanned: r.allPartitions()}, err
}

// named returns the audience of a message that only names its recipients.
func (r *Router) named(m message.Message) audience {
	express := r.express(m, nil)
	if len(m.To) <= r.opts.ExpressMax {
		return express
	}
	lane := event.Medium
	if len(m.To) > r.opts.MediumMax {
		lane = event.Bulk
	}
	return audience{lane: lane, scanned: express.partitions()}
}

// express returns the audience that consists of the named recipients, and of the followers and subscribers on the given edges.
func (r *Router) express(m message.Message, edges []follow.Edge) audience {
	a := audience{lane: event.Express, recipients: make(map[int][]message.UserID)}
	add := func(user message.UserID) {
		p := partition.Of(user, r.opts.Partitions)
		a.recipients[p] = append(a.recipients[p], user)
	}
	for _, user := range m.To {
		add(user)
	}
	for _, e := range edges {
		if follow.For(m, e.Follower, e) {
			add(e.Follower)
		}
	}
	for p, users := range a.recipients {
		slices.Sort(users)
		a.recipients[p] = slices.Compact(users)
	}
	return a
}

// sourcesAtOnce is how many sources of one message are read at a time. A message to eight topics may have 64.
const sourcesAtOnce = 8

// edgesIfFew returns the edges to the sources of a message, and whether these and the named recipients are few enough for
// the express lane. If they are not, the edges are incomplete.
func (r *Router) edgesIfFew(ctx context.Context, m message.Message, sources []message.Source) (edges []follow.Edge, small bool, err error) {
	found := make([][]follow.Edge, len(sources))
	var count atomic.Int64
	count.Add(int64(len(m.To)))
	few := func() bool { return count.Load() <= int64(r.opts.ExpressMax) }
	group, reading := errgroup.WithContext(ctx)
	group.SetLimit(sourcesAtOnce)
	for i, source := range sources {
		group.Go(func() (err error) {
			defer panics.Catch(&err)
			if few() {
				found[i], err = r.edgesTo(reading, source)
				count.Add(int64(len(found[i])))
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, false, err
	}
	return slices.Concat(found...), few(), nil
}

// edgesTo returns the edges to a source. If they are too many for the express lane, it returns one more than fit, and remembers that the source
// is large.
func (r *Router) edgesTo(ctx context.Context, source message.Source) (edges []follow.Edge, err error) {
	for p := 0; p < r.opts.Partitions && len(edges) <= r.opts.ExpressMax; p++ {
		more, err := r.stores.Edges.Followers(ctx, source, p, "", r.opts.ExpressMax+1-len(edges))
		if err != nil {
			return nil, err
		}
		edges = append(edges, more...)
	}
	if len(edges) > r.opts.ExpressMax {
		r.sizes.Add(source, measuredSize{large: true, share: unmeasured, at: r.opts.Now()})
	}
	return edges, nil
}

// measuredSize is how many edges lead to a source, and when they were counted.
type measuredSize struct {
	// large is set for more edges than fit the express lane.
	large bool
	// share counts the edges in one partition, or is unmeasured.
	share int
	at    time.Time
}

const unmeasured = -1

// sizeOf returns the size of a source, if it was measured a short time ago.
func (r *Router) sizeOf(source message.Source) (measuredSize, bool) {
	size, ok := r.sizes.Get(source)
	return size, ok && r.opts.Now().Sub(size.at) < r.opts.ClassTTL
}

// isLarge reports whether it is known that the edges to a source are too many for the express lane.
func (r *Router) isLarge(source message.Source) bool {
	size, ok := r.sizeOf(source)
	return ok && size.large
}

// measureLane returns the lane of a message to so many followers and subscribers that they do not fit the express lane. It counts the edges in
// one partition, because users are spread evenly over the partitions. If that partition holds thousands of edges,
// the estimate is less than 5% off. The limit is 5% higher, so an audience of MediumMax is always medium, and sources of
// the same size get the same lane. A user with edges to several sources counts for each. A wrong lane affects speed only.
func (r *Router) measureLane(ctx context.Context, sources []message.Source) (event.Lane, error) {
	most := r.opts.MediumMax / r.opts.Partitions
	most += most / 20
	sum := 0
	for _, source := range sources {
		share, err := r.measureShare(ctx, source, most+1)
		if err != nil {
			return "", err
		}
		if sum += share; sum > most {
			return event.Bulk, nil
		}
	}
	return event.Medium, nil
}

// measureShare counts the edges to a source in one partition, up to a limit.
func (r *Router) measureShare(ctx context.Context, source message.Source, limit int) (int, error) {
	size, ok := r.sizeOf(source)
	if ok && size.share != unmeasured {
		return size.share, nil
	}
	edges, err := r.stores.Edges.Followers(ctx, source, 0, "", limit)
	if err != nil {
		return 0, err
	}
	r.sizes.Add(source, measuredSize{large: ok && size.large, share: len(edges), at: r.opts.Now()})
	return len(edges), nil
}

// allPartitions returns all partitions.
func (r *Router) allPartitions() []int {
	all := make([]int, r.opts.Partitions)
	for p := range all {
		all[p] = p
	}
	return all
}

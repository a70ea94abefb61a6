package fanout

import (
	"context"
	"slices"

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
	if !m.ToFollowers() {
		return r.named(m), nil
	}
	if known, ok := r.lanes.Get(m.From); ok && r.opts.Now().Sub(known.at) < r.opts.ClassTTL {
		return audience{lane: known.lane, scanned: r.allPartitions()}, nil
	}
	edges, small, err := r.edgesIfFew(ctx, m)
	if err != nil {
		return audience{}, err
	}
	if small {
		return r.express(m, edges), nil
	}
	lane, err := r.measureLane(ctx, m.From)
	if err != nil {
		return audience{}, err
	}
	r.lanes.Add(m.From, measuredLane{lane: lane, at: r.opts.Now()})
	return audience{lane: lane, scanned: r.allPartitions()}, nil
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

// express returns the audience that consists of the named recipients and of the followers on the given edges.
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

// edgesIfFew returns the edges of an author's followers, and whether these and the named recipients are few enough for
// the express lane. If they are not, the edges are incomplete.
func (r *Router) edgesIfFew(ctx context.Context, m message.Message) (edges []follow.Edge, small bool, err error) {
	room := r.opts.ExpressMax - len(m.To)
	for p := 0; p < r.opts.Partitions && len(edges) <= room; p++ {
		more, err := r.stores.Edges.Followers(ctx, m.From, p, "", room+1-len(edges))
		if err != nil {
			return nil, false, err
		}
		edges = append(edges, more...)
	}
	return edges, len(edges) <= room, nil
}

// measureLane returns the lane of an author with more followers than fit the express lane. It counts the followers in
// one partition, because users are spread evenly over the partitions. If that partition holds thousands of followers,
// the estimate is less than 5% off. The limit is 5% higher, so an audience of MediumMax is always medium, and authors of
// the same size get the same lane. A wrong lane affects speed only.
func (r *Router) measureLane(ctx context.Context, author message.UserID) (event.Lane, error) {
	share := r.opts.MediumMax / r.opts.Partitions
	share += share / 20
	edges, err := r.stores.Edges.Followers(ctx, author, 0, "", share+1)
	if err != nil {
		return "", err
	}
	if len(edges) > share {
		return event.Bulk, nil
	}
	return event.Medium, nil
}

// allPartitions returns all partitions.
func (r *Router) allPartitions() []int {
	all := make([]int, r.opts.Partitions)
	for p := range all {
		all[p] = p
	}
	return all
}

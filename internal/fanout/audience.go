package fanout

import (
	"context"
	"slices"

	"github.com/fanmail/fanmail/internal/partition"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
)

// audience is who a message is for, as far as routing needs to know.
type audience struct {
	lane event.Lane
	// recipients are all recipients by partition, ascending, in the express lane; otherwise nil.
	recipients map[int][]message.UserID
	// scanned are the partitions to scan in the other lanes.
	scanned []int
}

// partitions returns the partitions in which somebody may be a recipient.
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

// audience finds out how large a message's audience is and, where it is small, who.
func (r *Router) audience(ctx context.Context, m message.Message) (audience, error) {
	if !m.ToFollowers() {
		return r.listed(m), nil
	}
	if known, ok := r.classes.Get(m.From); ok && r.opts.Now().Sub(known.at) < r.opts.ClassTTL {
		return audience{lane: known.lane, scanned: r.all()}, nil
	}
	edges, small, err := r.few(ctx, m)
	if err != nil {
		return audience{}, err
	}
	if small {
		return r.express(m, edges), nil
	}
	lane, err := r.measure(ctx, m.From)
	if err != nil {
		return audience{}, err
	}
	r.classes.Add(m.From, class{lane: lane, at: r.opts.Now()})
	return audience{lane: lane, scanned: r.all()}, nil
}

// listed returns the audience of a message that only names its recipients.
func (r *Router) listed(m message.Message) audience {
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

// express returns the audience that consists of the named recipients and of the followers on these edges.
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

// few returns the edges of an author's followers if they and the named recipients are few enough for the express lane.
func (r *Router) few(ctx context.Context, m message.Message) (edges []follow.Edge, small bool, err error) {
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

// measure tells the lane of an author with more followers than fit the express lane. Users are spread evenly over the
// partitions, so that one of them tells the size of all, as far as chance goes: in shares of thousands, that is less than a
// twentieth. An audience of MediumMax has to be medium whatever its share, or celebrities of the same size would go in different lanes.
func (r *Router) measure(ctx context.Context, author message.UserID) (event.Lane, error) {
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

func (r *Router) all() []int {
	all := make([]int, r.opts.Partitions)
	for p := range all {
		all[p] = p
	}
	return all
}

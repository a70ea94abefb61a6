package fanout

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fanmail/fanmail/internal/partition"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
)

// audience is what routing has to know of a message's audience. The lane decides which fields are set.
type audience struct {
	lane event.Lane
	// recipients are all recipients, ascending, each once. They are set in the direct lane.
	recipients []recipient
	// partitions are those that may hold a recipient. They are set in the other lanes.
	partitions []int
}

// audience measures the audience of a message, and reads the recipients if they are few. The caller has taken the event of the message: so
// an edge that is not found here was made by a user who finds the message by themselves.
func (r *Router) audience(ctx context.Context, m message.Message) (audience, error) {
	sources := m.Sources()
	if len(sources) == 0 && len(m.To) <= r.opts.DirectMax {
		return audience{lane: event.Direct, recipients: recipients(m, nil)}, nil
	}
	if len(sources) > 0 && len(m.To) <= r.opts.DirectMax && !slices.ContainsFunc(sources, r.isLarge) {
		// Ended edges count. Filtered before the limit, they could hide that there are more.
		most := r.opts.DirectMax - len(m.To)
		var edges []follow.Edge
		err := r.reach.one(ctx, string(m.ID[:]), func(ctx context.Context) (err error) {
			edges, err = r.stores.Edges.Audience(ctx, sources, most+1)
			return err
		})
		if err != nil {
			return audience{}, fmt.Errorf("audience of %s: %w", m.ID, err)
		}
		if len(edges) <= most {
			return audience{lane: event.Direct, recipients: recipients(m, edges)}, nil
		}
	}
	a := audience{lane: event.Medium, partitions: r.partitionsOf(m)}
	var err error
	if len(sources) > 0 {
		a.lane, err = r.measureLane(ctx, sources)
	} else if len(m.To) > r.opts.MediumMax {
		a.lane = event.Bulk
	}
	return a, err
}

// partitionsOf returns the partitions that may hold a recipient of a message.
func (r *Router) partitionsOf(m message.Message) []int {
	all := make([]int, 0, r.opts.Partitions)
	for p := range r.opts.Partitions {
		if m.Broadcast() || slices.ContainsFunc(m.To, func(u message.UserID) bool { return partition.Of(u, r.opts.Partitions) == p }) {
			all = append(all, p)
		}
	}
	return all
}

// recipients returns the users whom a message names, and those for whom it is by one of the edges.
func recipients(m message.Message, edges []follow.Edge) []recipient {
	users := make([]message.UserID, 0, len(m.To)+len(edges))
	users = append(users, m.To...)
	for _, e := range edges {
		if follow.For(m, e.Follower, e) {
			users = append(users, e.Follower)
		}
	}
	slices.Sort(users)
	users = slices.Compact(users)
	return recipientsOf(users)
}

// measuredShare is how many edges lead to a source from one partition, and when they were counted.
type measuredShare struct {
	edges int
	at    time.Time
}

// shareOf returns the share of a source, if it was measured a short time ago.
func (r *Router) shareOf(source message.Source) (edges int, ok bool) {
	share, ok := r.shares.Get(source)
	return share.edges, ok && r.opts.Now().Sub(share.at) < r.opts.ClassTTL
}

// isLarge reports whether it is known that the edges to a source are far too many for the direct lane.
func (r *Router) isLarge(source message.Source) bool {
	edges, ok := r.shareOf(source)
	return ok && edges*r.opts.Partitions > 2*r.opts.DirectMax
}

// measureLane returns the lane of a message to so many followers and subscribers that they do not fit the direct lane. It counts the edges in
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
	if share, ok := r.shareOf(source); ok {
		return share, nil
	}
	edges, err := r.stores.Edges.Followers(ctx, source, 0, "", limit)
	if err != nil {
		return 0, fmt.Errorf("count followers: %w", err)
	}
	r.shares.Add(source, measuredShare{edges: len(edges), at: r.opts.Now()})
	return len(edges), nil
}

package mongostore

import (
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/topic"
)

// Edges is the store of edges. Each edge is two documents, one for each end, and changes in three writes:
//
//  1. followers gets the new spans and the next revision, if its revision is still the one that was read. It is pending from then on;
//  2. following gets the same spans, unless it has a later revision;
//  3. followers is no longer pending, if it still has that revision.
//
// The document in followers decides. A call that finds it pending carries out the remaining writes before it uses the edge. So
// an edge takes effect for every reader after the second write, and fan-out never delivers by spans that rehydration does not
// know. Following reads following, so it first looks for pending edges of the follower.
//
// A crash before the first write changes nothing. After a crash later on, the next fan-out, the follower's next rehydration or the
// next call for the edge completes it. The reverse order would lose messages: with the edge only in following, fan-out would not know of the user's
// follow. No write needs to be undone. Any process may repeat any write at any time.
type Edges struct {
	followers, following collection
	pages                *pages
}

var _ follow.Store = (*Edges)(nil)

// edgeRecord is the stored form of an edge in either collection.
type edgeRecord struct {
	Version  int32          `bson:"v"`
	Follower message.UserID `bson:"follower"`
	Followee message.Source `bson:"followee"`
	Spans    []spanRecord   `bson:"spans"`
	Revision int64          `bson:"revision"`
	Number   topic.Number   `bson:"number"`
	Pending  bool           `bson:"pending"`
}

type spanRecord struct {
	Since bson.DateTime  `bson:"since"`
	Until *bson.DateTime `bson:"until,omitempty"`
}

func recordsOfSpans(spans []follow.Span) []spanRecord {
	records := make([]spanRecord, len(spans))
	for i, span := range spans {
		records[i].Since = date(span.Since)
		if !span.Open() {
			records[i].Until = new(date(span.Until))
		}
	}
	return records
}

func (r *edgeRecord) pair() follow.Pair {
	return follow.Pair{Follower: r.Follower, Followee: r.Followee}
}

func (r *edgeRecord) edge() follow.Edge {
	spans := make([]follow.Span, len(r.Spans))
	for i, span := range r.Spans {
		spans[i].Since = timeOf(span.Since)
		if span.Until != nil {
			spans[i].Until = timeOf(*span.Until)
		}
	}
	return follow.Edge{Follower: r.Follower, Followee: r.Followee, Spans: spans, Number: r.Number}
}

func (s *Edges) partition(follower message.UserID) int { return s.followers.db.partition(follower) }

// Follow implements follow.Store.
func (s *Edges) Follow(ctx context.Context, pairs []follow.Pair, at time.Time) ([]follow.Edge, error) {
	return s.begin(ctx, pairs, func(e follow.Edge) (follow.Edge, bool) { return e.Follow(at) })
}

// begin replaces edges that hold no longer, or never did, by what to makes of them. It creates new edges in bulk, because most edges are new.
func (s *Edges) begin(ctx context.Context, pairs []follow.Pair, to func(follow.Edge) (follow.Edge, bool)) ([]follow.Edge, error) {
	edges := make([]follow.Edge, len(pairs))
	writes := make([]write, len(pairs))
	late, settled := s.followers.db.latest(ctx), s.latestCompletion(ctx)
	for i, p := range pairs {
		edges[i], _ = to(follow.Edge{Follower: p.Follower, Followee: p.Followee})
		writes[i] = write{key: s.key(p), filter: s.filter(p), upsert: true, update: made(edges[i], late)}
	}
	written, err := s.followers.bulk(ctx, "follow", writes)
	if err != nil {
		return nil, err
	}
	var made []*edgeRecord
	var known []int
	for i, w := range written {
		if w.inserted {
			made = append(made, recordOfEdge(edges[i], firstRevision(edges[i].Spans)))
		} else {
			known = append(known, i)
		}
	}
	if err := s.complete(ctx, made, settled); err != nil {
		return nil, err
	}
	return edges, s.beginKnown(ctx, pairs, edges, known, to)
}

// beginKnown is begin for those of the pairs whose edge already exists.
func (s *Edges) beginKnown(
	ctx context.Context, pairs []follow.Pair, edges []follow.Edge, known []int, to func(follow.Edge) (follow.Edge, bool),
) error {
	again := make([]follow.Pair, len(known))
	for k, i := range known {
		again[k] = pairs[i]
	}
	there, err := s.Get(ctx, again)
	if err != nil {
		return err
	}
	return s.followers.db.each(ctx, len(known), func(ctx context.Context, k int) (err error) {
		i := known[k]
		if edges[i] = there[k]; !edges[i].Open() {
			edges[i], err = s.change(ctx, pairs[i], to)
		}
		return err
	})
}

// Unfollow implements follow.Store.
func (s *Edges) Unfollow(ctx context.Context, pair follow.Pair, at time.Time) error {
	_, err := s.change(ctx, pair, func(e follow.Edge) (follow.Edge, bool) { return e.Unfollow(at) })
	return err
}

// Subscribe implements follow.Store.
func (s *Edges) Subscribe(ctx context.Context, subscriptions []follow.Subscription, at time.Time) ([]follow.Edge, error) {
	pairs, numbers := make([]follow.Pair, len(subscriptions)), make(map[follow.Pair]topic.Number, len(subscriptions))
	for i, sub := range subscriptions {
		pairs[i], numbers[sub.Pair] = sub.Pair, sub.Number
	}
	return s.begin(ctx, pairs, func(e follow.Edge) (follow.Edge, bool) {
		return e.Subscribe(numbers[follow.Pair{Follower: e.Follower, Followee: e.Followee}], at)
	})
}

// End implements follow.Store.
func (s *Edges) End(ctx context.Context, sub follow.Subscription, at time.Time) error {
	_, err := s.change(ctx, sub.Pair, func(e follow.Edge) (follow.Edge, bool) { return e.End(sub.Number, at) })
	return err
}

// DropSpans implements follow.Store.
func (s *Edges) DropSpans(ctx context.Context, pair follow.Pair, spans []follow.Span) error {
	_, err := s.change(ctx, pair, func(e follow.Edge) (follow.Edge, bool) { return e.Drop(spans) })
	return err
}

// Get implements follow.Store.
func (s *Edges) Get(ctx context.Context, pairs []follow.Pair) ([]follow.Edge, error) {
	edges := make([]follow.Edge, len(pairs))
	place := make(map[follow.Pair]int, len(pairs))
	for i, p := range pairs {
		edges[i] = follow.Edge{Follower: p.Follower, Followee: p.Followee}
		place[p] = i
	}
	for _, filter := range s.filters(pairs) {
		records, err := s.find(ctx, filter, options.Find())
		if err != nil {
			return nil, err
		}
		for _, r := range records {
			edges[place[r.pair()]] = r.edge()
		}
	}
	return edges, nil
}

// Followers implements follow.Store. For a large audience it queries ranges with two ends, where it remembers the end of a
// page.
func (s *Edges) Followers(ctx context.Context, followee message.Source, partition int, after message.UserID, limit int) ([]follow.Edge, error) {
	of := audience{followee, partition}
	edges := make([]follow.Edge, 0, min(limit, leastPage))
	for from := after; len(edges) < limit; {
		bounds := operator("$gt", from)
		end, bounded := s.pages.end(of, from)
		if bounded {
			bounds = append(bounds, bson.E{Key: "$lte", Value: end})
		}
		filter := bson.D{{Key: fieldFollowee, Value: followee}, {Key: fieldPartition, Value: partition}, {Key: fieldFollower, Value: bounds}}
		records, err := s.find(ctx, filter, inOrder(fieldFollower, limit-len(edges)))
		if err != nil {
			return nil, err
		}
		if edges = append(edges, edgesOf(records)...); len(edges) == limit {
			s.pages.note(of, after, edges[limit-1].Follower, limit)
		}
		if from = end; !bounded {
			break
		}
	}
	return edges, nil
}

// Audience implements follow.Store. It asks for no order, because DocumentDB would then read all edges before it applies the limit.
func (s *Edges) Audience(ctx context.Context, followees []message.Source, limit int) ([]follow.Edge, error) {
	if limit <= 0 || len(followees) == 0 {
		return nil, nil
	}
	records, err := s.find(ctx, bson.D{{Key: fieldFollowee, Value: in(followees)}}, inOneReply(limit))
	return edgesOf(records), err
}

// Following implements follow.Store. A list from the beginning, from the first topic, block or author, first completes the pending edges of the follower. That
// query asks every shard, by an index that is nearly always empty.
//
// The order of the two queries matters. An edge is pending from its first write until its second write is done. If the first query does not
// find an edge whose first write is done, its second write is done as well. So the second query finds the edge. In the reverse order, an
// edge that the query of following does not find could be completed before the query of pending edges.
//
// A later page completes nothing. An edge that became pending after the first page belongs to a change that was made during the
// list, and its span begins at most a minute earlier (late.go). A rehydration covers it: the sweep lists the edges again from the
// beginning, and looks for messages sent since userstate.Rules.PublishSlack before the first list.
func (s *Edges) Following(ctx context.Context, follower message.UserID, after message.Source, limit int) ([]follow.Edge, error) {
	if limit <= 0 {
		return nil, nil
	}
	if after == "" || after == message.FirstTopic || after == message.FirstBlock || after == message.FirstAuthor {
		pending := bson.D{{Key: fieldFollower, Value: follower}, {Key: fieldPending, Value: true}}
		if _, err := s.find(ctx, pending, options.Find()); err != nil {
			return nil, err
		}
	}
	filter := bson.D{{Key: fieldFollower, Value: follower}, {Key: fieldFollowee, Value: operator("$gt", after)}}
	records, err := all[edgeRecord](ctx, s.following, "list whom a user follows", filter, inOrder(fieldFollowee, limit))
	return edgesOf(records), err
}

// Count implements follow.Store. The server reads the keys of an index only.
func (s *Edges) Count(ctx context.Context, followers []message.UserID, limit int) ([]int, error) {
	counts := make([]int, len(followers))
	return counts, s.following.db.each(ctx, len(followers), func(ctx context.Context, i int) error {
		return s.following.call(ctx, "count whom a user follows", func(ctx context.Context) error {
			n, err := s.following.CountDocuments(ctx, bson.D{{Key: fieldFollower, Value: followers[i]}}, options.Count().SetLimit(int64(limit)))
			counts[i] = int(n)
			return err
		})
	})
}

// inOrder returns options that limit a query and sort it by a field.
func inOrder(field string, limit int) *options.FindOptionsBuilder {
	return inOneReply(limit).SetSort(ascending(field))
}

// inOneReply returns options that limit a query and ask for as few replies as possible.
func inOneReply(limit int) *options.FindOptionsBuilder {
	const largestBatch = 10_000
	return options.Find().SetLimit(int64(limit)).SetBatchSize(int32(min(limit, largestBatch))) //nolint:gosec // it is bounded
}

func edgesOf(records []edgeRecord) []follow.Edge {
	edges := make([]follow.Edge, len(records))
	for i := range records {
		edges[i] = records[i].edge()
	}
	return edges
}

// find returns documents of followers. It completes those that are pending.
func (s *Edges) find(ctx context.Context, filter bson.D, opts *options.FindOptionsBuilder) ([]edgeRecord, error) {
	late := s.latestCompletion(ctx)
	records, err := all[edgeRecord](ctx, s.followers, "list followers", filter, opts)
	if err != nil {
		return nil, err
	}
	var pending []*edgeRecord
	for i := range records {
		if records[i].Pending {
			pending = append(pending, &records[i])
		}
	}
	if err := s.complete(ctx, pending, late); err != nil {
		return nil, fmt.Errorf("complete what another call began: %w", err)
	}
	return records, nil
}

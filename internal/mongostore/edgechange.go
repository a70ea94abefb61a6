package mongostore

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/topic"
)

func recordOfEdge(e follow.Edge, revision int64) *edgeRecord {
	return &edgeRecord{Follower: e.Follower, Followee: e.Followee, Spans: recordsOfSpans(e.Spans), Revision: revision, Number: e.Number, Pending: true}
}

// filter returns a filter that finds an edge in followers by its shard key.
func (s *Edges) filter(p follow.Pair) bson.D {
	return bson.D{
		{Key: fieldFollowee, Value: p.Followee},
		{Key: fieldPartition, Value: s.partition(p.Follower)},
		{Key: fieldFollower, Value: p.Follower},
	}
}

// key returns the sort key of a write to followers.
func (s *Edges) key(p follow.Pair) string {
	return string(p.Followee) + "\x00" + strconv.Itoa(s.partition(p.Follower)) + "\x00" + string(p.Follower)
}

const (
	// followersPerQuery and groupsPerQuery bound how many followers one query names, and how many ranges hold them.
	followersPerQuery = 5000
	groupsPerQuery    = 200
)

// filters returns filters that find the edges of pairs in followers, grouped by the ranges they are in, in their order: see write.key.
func (s *Edges) filters(pairs []follow.Pair) (filters []bson.D) {
	type group struct {
		followee  message.Source
		partition int
	}
	followers := make(map[group][]message.UserID)
	for _, p := range pairs {
		g := group{p.Followee, s.partition(p.Follower)}
		followers[g] = append(followers[g], p.Follower)
	}
	var groups []bson.D
	size := 0
	flush := func() {
		if len(groups) > 0 {
			filters = append(filters, bson.D{{Key: "$or", Value: groups}})
			groups, size = nil, 0
		}
	}
	inOrder := slices.SortedFunc(maps.Keys(followers), func(x, y group) int {
		return cmp.Or(cmp.Compare(x.followee, y.followee), cmp.Compare(x.partition, y.partition))
	})
	for _, g := range inOrder {
		for some := range slices.Chunk(slices.Sorted(slices.Values(followers[g])), followersPerQuery) {
			if size+len(some) > followersPerQuery || len(groups) == groupsPerQuery {
				flush()
			}
			size += len(some)
			groups = append(groups, bson.D{
				{Key: fieldFollowee, Value: g.followee},
				{Key: fieldPartition, Value: g.partition},
				{Key: fieldFollower, Value: in(some)},
			})
		}
	}
	flush()
	return filters
}

// revised returns the update that the first write of a change applies. The update fails if it arrives late, because the start
// time of the edge was read from a clock before the write.
func revised(e follow.Edge, revision int64, late bson.DateTime) bson.D {
	return append(numbered(e.Followee, e.Number), bson.D{
		{Key: fieldSpans, Value: operator("$literal", recordsOfSpans(e.Spans))},
		{Key: fieldRevision, Value: revision},
		{Key: fieldPending, Value: failAfter(late, fieldFollower, true)},
	}...)
}

// numbered returns the version of an edge and, for an edge to a topic, its number.
func numbered(followee message.Source, number topic.Number) bson.D {
	if !followee.IsTopic() {
		return bson.D{{Key: fieldVersion, Value: int32(version)}}
	}
	return bson.D{{Key: fieldVersion, Value: int32(version)}, {Key: fieldNumber, Value: number}}
}

// made returns the update of an upsert that creates an edge. It leaves an existing edge unchanged.
func made(e follow.Edge, late bson.DateTime) mongo.Pipeline {
	return unlessThere(operator("$mergeObjects", bson.A{"$$ROOT", revised(e, firstRevision(e.Spans), late)}))
}

// firstRevision returns the revision with which an edge is created. It is above all revisions of a removed edge between the same users: it
// replaces what may be left of that in following.
func firstRevision(spans []follow.Span) int64 {
	const changesInMillisecond = 20 // bits
	return spans[0].Since.UnixMilli() << changesInMillisecond
}

// change replaces an edge by the result of to, and returns the stored edge. If the reply to a write was lost, the repetition
// finds the change in place.
func (s *Edges) change(ctx context.Context, p follow.Pair, to func(follow.Edge) (follow.Edge, bool)) (edge follow.Edge, err error) {
	var found *edgeRecord
	late, settled := s.followers.db.latest(ctx), s.latestCompletion(ctx)
	err = s.followers.call(ctx, "change an edge", func(ctx context.Context) error {
		for {
			there, err := s.read(ctx, p)
			if err != nil {
				return err
			}
			next, changed := to(there.edge())
			if edge, found = next, there; !changed {
				return nil
			}
			revision := there.Revision + 1
			if there.Revision == 0 {
				revision = firstRevision(next.Spans)
			}
			found = recordOfEdge(next, revision)
			if replaced, err := s.replace(ctx, p, next, there.Revision, late); replaced || err != nil {
				return err
			}
		}
	})
	if err != nil {
		return follow.Edge{}, err
	}
	if found.Pending {
		err = s.complete(ctx, []*edgeRecord{found}, settled)
	}
	return edge, err
}

// read returns an edge from followers. An edge that does not exist has no spans and revision 0.
func (s *Edges) read(ctx context.Context, p follow.Pair) (*edgeRecord, error) {
	r, err := one[edgeRecord](s.followers, s.followers.FindOne(ctx, s.filter(p)))
	if errors.Is(err, mongo.ErrNoDocuments) {
		return &edgeRecord{Follower: p.Follower, Followee: p.Followee}, nil
	}
	return &r, err
}

// replace is the first write of a change. It applies only while the edge in followers has the revision that the change started
// from.
func (s *Edges) replace(ctx context.Context, p follow.Pair, to follow.Edge, from int64, late bson.DateTime) (bool, error) {
	filter := s.filter(p)
	if from > 0 {
		filter = append(filter, bson.E{Key: fieldRevision, Value: from})
		result, err := s.followers.UpdateOne(ctx, filter, mongo.Pipeline{operator("$set", revised(to, from+1, late))})
		return err == nil && result.MatchedCount > 0, err
	}
	result, err := s.followers.UpdateOne(ctx, filter, made(to, late), options.UpdateOne().SetUpsert(true))
	if duplicate(err) { // another call created it at the same moment
		return false, nil
	}
	return err == nil && result.UpsertedCount > 0, err
}

// latestCompletion returns the time, by the server's clock, from which it refuses the second write of a change that this process reads or begins
// now. An edge is removed only long after that.
func (s *Edges) latestCompletion(ctx context.Context) bson.DateTime {
	return soon(ctx, s.followers.db.opts.ClockTolerance())
}

// complete carries out the second and the third write of changes whose first write is done. late is the latestCompletion of when they were
// read, or begun.
func (s *Edges) complete(ctx context.Context, pending []*edgeRecord, late bson.DateTime) error {
	mirror := make([]write, len(pending))
	settled := make(map[int64][]follow.Pair)
	for i, r := range pending {
		p := r.pair()
		mirror[i] = write{
			key: string(p.Follower) + "\x00" + string(p.Followee), upsert: true,
			filter: bson.D{
				{Key: fieldFollower, Value: p.Follower},
				{Key: fieldFollowee, Value: p.Followee},
				{Key: fieldRevision, Value: operator("$lt", r.Revision)},
			},
			update: mongo.Pipeline{operator("$set", append(numbered(r.Followee, r.Number), bson.D{
				{Key: fieldSpans, Value: operator("$literal", r.Spans)},
				{Key: fieldRevision, Value: failAfter(late, fieldFollower, r.Revision)},
			}...))},
		}
		settled[r.Revision] = append(settled[r.Revision], p)
	}
	if err := s.mirror(ctx, mirror); err != nil {
		return err
	}
	return s.clearPending(ctx, settled)
}

// clearPending carries out the third write of changes, given by their revision. New edges of one call have the same revision.
func (s *Edges) clearPending(ctx context.Context, settled map[int64][]follow.Pair) error {
	const few = 20 // a command for so few edges costs more than their writes in a bulk
	var single []write
	for _, revision := range slices.Sorted(maps.Keys(settled)) {
		pairs := settled[revision]
		if len(pairs) <= few {
			for _, p := range pairs {
				single = append(single, write{key: s.key(p), filter: append(s.filter(p), bson.E{Key: fieldRevision, Value: revision}), update: notPending})
			}
			continue
		}
		for _, filter := range s.filters(pairs) {
			filter = append(filter, bson.E{Key: fieldRevision, Value: revision})
			err := s.followers.call(ctx, "settle edges", func(ctx context.Context) error {
				_, err := s.followers.UpdateMany(ctx, filter, notPending)
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	_, err := s.followers.bulk(ctx, "settle edges", single)
	return err
}

// notPending is the update of the third write of a change.
var notPending = operator("$unset", bson.D{{Key: fieldPending, Value: ""}})

// mirror carries out the second write of changes. A write that matches no earlier revision tries to insert and fails on a
// unique key. Usually the document has a later revision. But two calls that create a document at the same moment do not see
// each other, so the document may have an earlier revision. mirror therefore repeats a refused write once. Now the document
// exists, so only a later revision refuses the write.
func (s *Edges) mirror(ctx context.Context, writes []write) error {
	for range 2 {
		written, err := s.following.bulk(ctx, "mirror edges", writes)
		if err != nil {
			return err
		}
		var refused []write
		for i, w := range written {
			if w.duplicate {
				refused = append(refused, writes[i])
			}
		}
		if writes = refused; len(writes) == 0 {
			break
		}
	}
	return nil
}

package mongostore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fanmail/fanmail/pkg/follow"
)

// Ended implements follow.Store. It goes through followers in the order of the documents' ids, which is about that of their creation. An edge
// that is pending is left out: the next reader completes it.
func (s *Edges) Ended(ctx context.Context, place string, by time.Time, limit int) (ended []follow.Edge, next string, err error) {
	var after bson.ObjectID
	if place != "" {
		if err := after.UnmarshalText([]byte(place)); err != nil {
			return nil, "", fmt.Errorf("mongostore: %q is no place among the edges: %w", place, err)
		}
	}
	filter := bson.D{{Key: fieldID, Value: operator("$gt", after)}}
	looks := 0
	restart := func() { ended, looks = nil, 0 }
	err = s.followers.scan(ctx, "list edges that have ended", filter, inOrder(fieldID, limit), restart, func(raw bson.Raw) error {
		looks++
		after, _ = raw.Lookup(fieldID).ObjectIDOK()
		var r edgeRecord
		if err := decode(s.followers.Name(), raw, &r); err != nil {
			if errors.Is(err, ErrCorrupt) {
				return nil // every reader of the edge gets the error
			}
			return err
		}
		if e := r.edge(); !r.Pending && e.EndedBy(by) {
			ended = append(ended, e)
		}
		return nil
	})
	if looks == limit {
		next = after.Hex()
	}
	return ended, next, err
}

// Remove implements follow.Store. It removes the document in following first: after a crash, Ended finds the other again. It removes neither
// if the edge has changed meanwhile. test/proof/unlink.go has the proof.
func (s *Edges) Remove(ctx context.Context, edges []follow.Edge) error {
	pairs := make([]follow.Pair, len(edges))
	known := make(map[follow.Pair]follow.Edge, len(edges))
	for i, e := range edges {
		pairs[i] = follow.Pair{Follower: e.Follower, Followee: e.Followee}
		known[pairs[i]] = e
	}
	var first, second []mongo.WriteModel
	for _, filter := range s.filters(pairs) {
		records, err := all[edgeRecord](ctx, s.followers, "read edges that have ended", filter, options.Find())
		if err != nil {
			return err
		}
		for _, r := range records {
			p := r.pair()
			if r.Pending || !r.edge().Equal(known[p]) {
				continue
			}
			as := bson.E{Key: fieldRevision, Value: r.Revision}
			first = append(first, mongo.NewDeleteOneModel().SetFilter(bson.D{
				{Key: fieldFollower, Value: p.Follower}, {Key: fieldFollowee, Value: p.Followee}, as,
			}))
			second = append(second, mongo.NewDeleteOneModel().SetFilter(append(s.filter(p), as, bson.E{Key: fieldPending, Value: operator("$ne", true)})))
		}
	}
	if err := s.following.remove(ctx, first); err != nil {
		return err
	}
	return s.followers.remove(ctx, second)
}

// remove carries out removals, each on its own and in no particular order.
func (c collection) remove(ctx context.Context, models []mongo.WriteModel) error {
	if len(models) == 0 {
		return nil
	}
	return c.call(ctx, "remove documents", func(ctx context.Context) error {
		_, err := c.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false))
		return err
	})
}

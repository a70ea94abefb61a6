package mongostore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// Users is the store of user states.
type Users struct{ c collection }

var _ userstate.Store = (*Users)(nil)

// seen is a condition that only users who were seen fulfil.
var seen = bson.E{Key: fieldLastViewed, Value: operator("$exists", true)}

func userFilter(user message.UserID) bson.D { return bson.D{{Key: fieldID, Value: user}} }

// Lookup implements userstate.Store.
func (s *Users) Lookup(ctx context.Context, users []message.UserID) ([]userstate.Looked, error) {
	there, err := byID[userRecord](ctx, s.c, "look up users", users)
	if err != nil {
		return nil, err
	}
	looked := make([]userstate.Looked, len(users))
	for i, user := range users {
		if r, ok := there[user]; ok {
			looked[i] = lookedAt(r)
		} else {
			looked[i].State.User = user
		}
	}
	return looked, nil
}

// lookedAt returns the state in a record, or how the record is damaged.
func lookedAt(r readRecord[userRecord]) userstate.Looked {
	st, err := r.record.state()
	if err = cmp.Or(r.err, err); err != nil {
		return userstate.Looked{State: userstate.State{User: message.UserID(r.id)}, Err: fmt.Errorf("mongostore: state of %s: %w", r.id, err)}
	}
	return userstate.Looked{State: st}
}

// read returns the record of a user within an operation, or nil if there is none.
func (s *Users) read(ctx context.Context, user message.UserID) (*userRecord, error) {
	r, err := one[userRecord](s.c, s.c.FindOne(ctx, userFilter(user)))
	if errors.Is(err, mongo.ErrNoDocuments) {
		return nil, nil //nolint:nilnil // an unknown user is not an error
	}
	return &r, err
}

// View implements userstate.Store.
func (s *Users) View(ctx context.Context, views []userstate.View) ([]userstate.Viewed, error) {
	viewed := make([]userstate.Viewed, len(views))
	return viewed, s.c.db.each(ctx, len(views), func(ctx context.Context, i int) (err error) {
		viewed[i], err = s.view(ctx, views[i])
		return err
	})
}

// view is one conditional update that returns the previous state. If a reply was lost, the repetition finds the state that the
// first attempt wrote. A second view right after the first would find the same.
func (s *Users) view(ctx context.Context, v userstate.View) (viewed userstate.Viewed, err error) {
	opts := options.FindOneAndUpdate().SetReturnDocument(options.Before)
	active := append(userFilter(v.User), bson.E{Key: fieldHorizon, Value: operator("$gt", date(v.Beyond))})
	later := operator("$max", bson.A{"$" + fieldLastViewed, date(v.At)})
	look := mongo.Pipeline{operator("$set", bson.D{{Key: fieldLastViewed, Value: failAfter(s.c.db.latest(ctx), fieldID, later)}})}
	err = s.c.call(ctx, "view", func(ctx context.Context) error {
		r, err := one[userRecord](s.c, s.c.FindOneAndUpdate(ctx, active, look, opts))
		if err == nil {
			viewed.Applied = true
			viewed.Previous, err = r.state()
			return err
		}
		if !errors.Is(err, mongo.ErrNoDocuments) {
			return err
		}
		there, err := s.read(ctx, v.User)
		if err != nil {
			return err
		}
		if there == nil {
			viewed.Previous = userstate.State{User: v.User}
			return nil
		}
		viewed.Previous, err = there.state()
		if err == nil && v.Applies(viewed.Previous) {
			return errChanged
		}
		return err
	})
	return viewed, err
}

// Due implements userstate.Store. It asks every shard, twice if fewer than limit leases have ended.
func (s *Users) Due(ctx context.Context, dead userstate.Dead, limit int) ([]userstate.Looked, error) {
	if limit <= 0 {
		return nil, nil
	}
	// Plain: two workers on one rehydration do no harm, and one that is missing is found later.
	plain := &Users{c: s.c.older()}
	due := func(bound bson.D, limit int) ([]userstate.Looked, error) {
		return plain.find(ctx, "find due rehydrations", bson.D{{Key: fieldDue, Value: bound}}, ascending(fieldDue), limit)
	}
	// A lease that ended earlier in the same millisecond has also ended.
	ended, err := due(operator("$lt", date(dead.Before.Add(time.Millisecond-1))), limit)
	if err != nil || len(ended) == limit || dead.After.Before(dead.Before) {
		return ended, err
	}
	ahead, err := due(operator("$gt", date(dead.After)), limit-len(ended))
	return append(ended, ahead...), err
}

// List implements userstate.Store. It asks every shard.
func (s *Users) List(ctx context.Context, partition int, after message.UserID, limit int) ([]userstate.Looked, error) {
	if limit <= 0 {
		return nil, nil
	}
	filter := bson.D{{Key: fieldPartition, Value: partition}, {Key: fieldID, Value: operator("$gt", after)}}
	return s.find(ctx, "list users", filter, ascending(fieldID), limit)
}

func (s *Users) find(ctx context.Context, doing string, filter, order bson.D, limit int) ([]userstate.Looked, error) {
	records, err := readable[userRecord](ctx, s.c, doing, filter, options.Find().SetSort(order).SetLimit(int64(limit)))
	if err != nil {
		return nil, err
	}
	looked := make([]userstate.Looked, len(records))
	for i, r := range records {
		looked[i] = lookedAt(r)
	}
	return looked, nil
}

// RaiseHeads implements bucket.Hints.
func (s *Users) RaiseHeads(ctx context.Context, heads []bucket.Head) error {
	writes := make([]write, 0, len(heads))
	for _, h := range heads {
		if h.Hint == (bucket.Hint{}) { // that is an absent hint
			continue
		}
		behind := "$gte"
		if h.Hint.Decl > 0 {
			behind = "$gt" // the stored hint may lack the decl of that bucket
		}
		ahead := bson.E{Key: path(fieldHead, fieldSequence), Value: operator("$not", operator(behind, int64(h.Hint.Sequence)))}
		writes = append(writes, write{
			key: string(h.Owner), filter: append(userFilter(h.Owner), seen, ahead),
			update: operator("$set", bson.D{{Key: fieldHead, Value: headRecord{
				Sequence: int64(h.Hint.Sequence), Floor: uuid(h.Hint.Floor), Decl: int32(h.Hint.Decl), //nolint:gosec // it counts declarations
			}}}),
		})
	}
	_, err := s.c.bulk(ctx, "raise heads", writes)
	return err
}

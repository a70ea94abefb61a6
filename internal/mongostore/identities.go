package mongostore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fanmail/fanmail/pkg/identity"
	"github.com/fanmail/fanmail/pkg/message"
)

// Identities is the store of the records of identities and of the lists of users.
type Identities struct{ c, lists collection }

var _ identity.Store = (*Identities)(nil)

// identityRecord is the stored form of an identity.Record. A record that was removed leaves its revision until long after any insert that
// is under way has come. An insert replaces what it has read, so that it does nothing if it comes after another insert and its removal.
type identityRecord struct {
	ID       string        `bson:"_id,omitempty"` // identity.Identity.Key
	Version  int32         `bson:"v"`
	Revision bson.ObjectID `bson:"revision,omitempty"`
	Gone     bson.DateTime `bson:"gone,omitempty"` // when it was removed, by the server's clock

	User    message.UserID `bson:"user"`
	Number  bson.ObjectID  `bson:"number"`
	InForce bool           `bson:"in_force,omitempty"`
	Form    int32          `bson:"form"`
	Since   bson.DateTime  `bson:"since"`
}

func (r identityRecord) record(id identity.Identity) identity.Record {
	return identity.Record{
		Identity: id, User: r.User, Number: identity.Number(r.Number), InForce: r.InForce, Form: int(r.Form), Since: timeOf(r.Since),
	}
}

func identityKeys[T any](all []T, of func(T) identity.Identity) []string {
	keys := make([]string, len(all))
	for i, v := range all {
		keys[i] = of(v).Key()
	}
	return keys
}

func identityOf(r identity.Record) identity.Identity { return r.Identity }

// withNumber returns a filter that finds a record if it has its number.
func withNumber(r identity.Record) bson.D {
	return bson.D{{Key: fieldID, Value: r.Identity.Key()}, {Key: fieldNumber, Value: bson.ObjectID(r.Number)}}
}

// Lookup implements identity.Store.
func (s *Identities) Lookup(ctx context.Context, ids []identity.Identity) ([]identity.Looked, error) {
	keys := identityKeys(ids, func(id identity.Identity) identity.Identity { return id })
	there, err := byID[identityRecord](ctx, s.c, "look up identities", keys)
	if err != nil {
		return nil, err
	}
	looked := make([]identity.Looked, len(ids))
	for i, id := range ids {
		looked[i].Record.Identity = id
		if found, ok := there[keys[i]]; ok {
			if looked[i].Err = found.err; found.err == nil && found.record.Gone == 0 {
				looked[i].Record = found.record.record(id)
			}
		}
	}
	return looked, nil
}

// Insert implements identity.Store.
func (s *Identities) Insert(ctx context.Context, records []identity.Record) ([]identity.Looked, error) {
	documents := make([]identityRecord, len(records))
	inserted, err := s.c.insertMissing(ctx, "insert identities", len(records), func(i int) any {
		r := records[i]
		documents[i] = identityRecord{
			ID: r.Identity.Key(), Version: version, User: r.User, Number: bson.NewObjectID(), Form: int32(r.Form), Since: date(r.Since), //nolint:gosec // forms are few
		}
		return documents[i]
	})
	if err != nil {
		return nil, err
	}
	looked := make([]identity.Looked, len(records))
	var refused []int
	for i, r := range records {
		if looked[i].Record = documents[i].record(r.Identity); !inserted[i] {
			refused = append(refused, i)
		}
	}
	if err := s.insertAgain(ctx, documents, refused); err != nil {
		return nil, err
	}
	return looked, s.lookAt(ctx, records, looked, refused)
}

// insertAgain replaces what removed records have left by some of the documents.
func (s *Identities) insertAgain(ctx context.Context, documents []identityRecord, at []int) error {
	if len(at) == 0 {
		return nil
	}
	keys := make([]string, len(at))
	for k, i := range at {
		keys[k] = documents[i].ID
	}
	there, err := byID[identityRecord](ctx, s.c, "look for identities that were removed", keys)
	if err != nil {
		return err
	}
	var writes []write
	for _, i := range at {
		d := documents[i]
		if left := there[d.ID]; left.err == nil && left.record.Gone != 0 {
			w := write{key: d.ID, filter: bson.D{{Key: fieldID, Value: d.ID}, {Key: fieldRevision, Value: left.record.Revision}}}
			d.ID = ""
			w.update = mongo.Pipeline{operator("$replaceWith", operator("$literal", d))}
			writes = append(writes, w)
		}
	}
	_, err = s.c.bulk(ctx, "insert identities again", writes)
	return err
}

// removeRecord replaces the record that a filter finds by a new revision, and reports whether there was one.
func (s *Identities) removeRecord(ctx context.Context, filter bson.D) (bool, error) {
	left := bson.D{{Key: fieldVersion, Value: int32(version)}, {Key: fieldRevision, Value: bson.NewObjectID()}, {Key: fieldGone, Value: "$$NOW"}}
	result, err := s.c.UpdateOne(ctx, filter, mongo.Pipeline{operator("$replaceWith", left)})
	return err == nil && result.MatchedCount > 0, err
}

// lookAt replaces some results by the records that are there.
func (s *Identities) lookAt(ctx context.Context, records []identity.Record, looked []identity.Looked, at []int) error {
	if len(at) == 0 {
		return nil
	}
	ids := make([]identity.Identity, len(at))
	for k, i := range at {
		ids[k] = records[i].Identity
	}
	found, err := s.Lookup(ctx, ids)
	for k, f := range found {
		looked[at[k]] = f
	}
	return err
}

// Confirm implements identity.Store. A number belongs to one identity. So an update of all that have any of the keys and any of the numbers
// confirms just the given records. If it found all of them, they need not be read.
func (s *Identities) Confirm(ctx context.Context, records []identity.Record) ([]identity.Looked, error) {
	numbers := make([]bson.ObjectID, len(records))
	all := make([]int, len(records))
	looked := make([]identity.Looked, len(records))
	for i, r := range records {
		numbers[i], all[i] = bson.ObjectID(r.Number), i
		r.InForce = true
		looked[i].Record = r
	}
	matched := int64(0)
	same := bson.D{{Key: fieldID, Value: in(identityKeys(records, identityOf))}, {Key: fieldNumber, Value: in(numbers)}}
	err := s.c.call(ctx, "confirm identities", func(ctx context.Context) error {
		result, err := s.c.UpdateMany(ctx, same, operator("$set", bson.D{{Key: fieldInForce, Value: true}}))
		if err == nil {
			matched = result.MatchedCount
		}
		return err
	})
	if err != nil || matched == int64(len(records)) {
		return looked, err
	}
	return looked, s.lookAt(ctx, records, looked, all)
}

// Withdraw implements identity.Store.
func (s *Identities) Withdraw(ctx context.Context, r identity.Record) (withdrawn bool, err error) {
	open := append(withNumber(r), bson.E{Key: fieldInForce, Value: operator("$ne", true)})
	err = s.c.call(ctx, "withdraw an identity", func(ctx context.Context) error {
		removed, err := s.removeRecord(ctx, open)
		if withdrawn = true; err != nil || removed {
			return err
		}
		inForce, err := s.c.has(ctx, withNumber(r))
		withdrawn = !inForce
		return err
	})
	return withdrawn, err
}

// Remove implements identity.Store.
func (s *Identities) Remove(ctx context.Context, r identity.Record) error {
	if !r.Exists() {
		return nil
	}
	return s.c.call(ctx, "remove an identity", func(ctx context.Context) error {
		_, err := s.removeRecord(ctx, withNumber(r))
		return err
	})
}

// insertMissing inserts the documents of whose ids there is none, and reports which it inserted. It makes a new document for each attempt.
// If a reply was lost, the document of an earlier attempt may be there, and is reported as not inserted.
func (c collection) insertMissing(ctx context.Context, doing string, n int, document func(i int) any) ([]bool, error) {
	inserted := make([]bool, n)
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	for open := range slices.Chunk(all, c.db.opts.BulkOperations) {
		err := c.call(ctx, doing, func(ctx context.Context) error {
			documents := make([]any, len(open))
			for k, i := range open {
				documents[k] = document(i)
			}
			_, err := c.InsertMany(ctx, documents, options.InsertMany().SetOrdered(false))
			exception, partly := errors.AsType[mongo.BulkWriteException](err)
			switch {
			case exception.WriteConcernError != nil:
				return fmt.Errorf("not acknowledged by a majority: %s", exception.WriteConcernError.Message)
			case err != nil && !partly:
				return err
			}
			failed := make(map[int]bool, len(exception.WriteErrors))
			var left []int
			err = nil
			for _, e := range exception.WriteErrors {
				failed[e.Index] = true
				single := mongo.WriteException{WriteErrors: mongo.WriteErrors{e.WriteError}}
				if !duplicate(single) {
					left, err = append(left, open[e.Index]), cmp.Or[error](err, single)
				}
			}
			for k, i := range open {
				inserted[i] = inserted[i] || !failed[k]
			}
			open = left
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return inserted, nil
}

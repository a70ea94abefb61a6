package mongostore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fanmail/fanmail/pkg/message"
)

// oldRecord is the part of a message that decides whether it may be removed.
type oldRecord struct {
	Message    messageRecord `bson:",inline"`
	Unfinished bool          `bson:"unfinished"`
}

func (r oldRecord) old() (message.Old, error) {
	m, err := r.Message.stored()
	return message.Old{Ref: m.Ref(), Stamp: m.Stamp, Unfinished: r.Unfinished}, err
}

// Oldest implements message.Store. The index of the ids answers it, on every shard.
func (s *Messages) Oldest(ctx context.Context, after, upTo message.ID, limit int) (old []message.Old, err error) {
	if limit <= 0 {
		return nil, nil
	}
	filter := bson.D{{Key: fieldID, Value: bson.D{{Key: "$gt", Value: uuid(after)}, {Key: "$lte", Value: uuid(upTo)}}}}
	opts := options.Find().SetSort(ascending(fieldID)).SetLimit(int64(limit)).
		SetProjection(fields(fieldID, fieldFrom, fieldLag, fieldStoredAt, fieldUnfinished))
	// Plain: a message that has finished stays so, and one that is missing is removed later.
	err = s.c.older().scan(ctx, "list the oldest messages", filter, opts, func() { old = nil }, func(raw bson.Raw) error {
		ref, err := refOf(raw)
		if err != nil {
			return err
		}
		var r oldRecord
		var m message.Old
		if err = decode(s.c.Name(), raw, &r); err == nil {
			m, err = r.old()
		}
		switch {
		case errors.Is(err, ErrCorrupt):
			m = message.Old{Ref: message.Ref{ID: ref.ID}, Err: fmt.Errorf("mongostore: message %s: %w", ref.ID, err)}
		case err != nil:
			return err
		}
		old = append(old, m)
		return nil
	})
	return old, err
}

// Newest implements message.Store. Its first window is a second, which holds about a page where much is published.
func (s *Messages) Newest(ctx context.Context, from message.UserID, before message.ID, limit int) (refs []message.Ref, rest message.ID, err error) {
	q := search{
		parts:  []searchPart{{index: indexOfIDs}},
		bounds: window{to: before}, order: message.NewestFirst, limit: limit, first: time.Second,
	}
	if from != "" {
		q.parts = []searchPart{{filter: bson.D{{Key: fieldFrom, Value: from}}, index: byFrom.name()}}
	}
	plain := &Messages{c: s.c.older()} // a list may be seconds old
	if refs, err = plain.search(ctx, q); err == nil && limit > 0 && len(refs) == limit {
		rest = refs[limit-1].ID
	}
	return refs, rest, err
}

// Remove implements message.Store. A message is one document, and its indexes are the server's.
func (s *Messages) Remove(ctx context.Context, refs []message.Ref) error {
	models := make([]mongo.WriteModel, len(refs))
	for i, ref := range refs {
		models[i] = mongo.NewDeleteOneModel().SetFilter(refFilter(ref))
	}
	return s.c.remove(ctx, models)
}

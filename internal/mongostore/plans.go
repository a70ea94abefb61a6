package mongostore

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/pkg/message"
)

// List implements progress.Store.
func (s *Progress) List(ctx context.Context, after, upTo message.ID, limit int) (found []progress.Found, err error) {
	filter := bson.D{{Key: fieldID, Value: bson.D{{Key: "$gt", Value: uuid(after)}, {Key: "$lte", Value: uuid(upTo)}}}}
	opts := options.Find().SetSort(ascending(fieldID)).SetLimit(int64(limit))
	// Plain: a scan that has ended stays so, and a plan that is missing ends later.
	err = s.c.older().scan(ctx, "list fan-outs", filter, opts, func() { found = nil }, func(raw bson.Raw) error {
		id, err := rawID(s.c.Name(), raw)
		if err != nil {
			return err
		}
		f := progress.Found{Fanout: progress.Fanout{ID: id}}
		var r fanoutRecord
		if err = decode(s.c.Name(), raw, &r); err == nil {
			f.Fanout, err = r.fanout()
		}
		switch {
		case errors.Is(err, ErrCorrupt):
			f = progress.Found{Fanout: progress.Fanout{ID: id}, Err: fmt.Errorf("mongostore: fan-out of %s: %w", id, err)}
		case err != nil:
			return err
		}
		found = append(found, f)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// Remove implements progress.Store.
func (s *Progress) Remove(ctx context.Context, ids []message.ID) error {
	if len(ids) == 0 {
		return nil
	}
	documents := make([]bson.Binary, len(ids))
	for i, id := range ids {
		documents[i] = uuid(id)
	}
	return s.c.call(ctx, "remove fan-outs", func(ctx context.Context) error {
		_, err := s.c.DeleteMany(ctx, bson.D{{Key: fieldID, Value: in(documents)}})
		return err
	})
}

package mongostore

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fanmail/fanmail/pkg/message"
)

// endedRecord is the part of a message that says how its fan-out ended.
type endedRecord struct {
	Ending *endingRecord `bson:"ending"`
}

// endingRecord is the stored form of an ending.
type endingRecord struct {
	Delivered int64 `bson:"delivered"`
	Skipped   int64 `bson:"skipped"`
	GivenUp   int64 `bson:"given_up,omitempty"`
	Closed    int64 `bson:"closed"`
}

// Endings implements message.Store. Refs without an author cost a query of their own, which every shard answers.
func (s *Messages) Endings(ctx context.Context, refs []message.Ref) ([]message.Fate, error) {
	places := make(map[message.ID][]int, len(refs))
	var authored []message.Ref
	var anonymous []bson.Binary
	for i, ref := range refs {
		if places[ref.ID] = append(places[ref.ID], i); ref.From != "" {
			authored = append(authored, ref)
		} else {
			anonymous = append(anonymous, uuid(ref.ID))
		}
	}
	fates := make([]message.Fate, len(refs))
	read := func(filter bson.D) error {
		projection := options.Find().SetProjection(fields(fieldID, fieldFrom, fieldEnding))
		return s.c.scan(ctx, "read endings", filter, projection, func() {}, func(raw bson.Raw) error {
			found, fate, err := fateOf(raw)
			if err != nil {
				return err
			}
			for _, i := range places[found.ID] {
				if refs[i].From == "" || refs[i].From == found.From {
					fates[i] = fate
				}
			}
			return nil
		})
	}
	if err := s.byRef(authored, read); err != nil {
		return nil, err
	}
	for len(anonymous) > 0 {
		n := min(refsPerQuery, len(anonymous))
		if err := read(bson.D{{Key: fieldID, Value: in(anonymous[:n])}}); err != nil {
			return nil, err
		}
		anonymous = anonymous[n:]
	}
	return fates, nil
}

// fateOf returns the fate that a document tells of, and of which message.
func fateOf(raw bson.Raw) (message.Ref, message.Fate, error) {
	ref, err := refOf(raw)
	if err != nil {
		return message.Ref{}, message.Fate{}, err
	}
	var r endedRecord
	switch err := decode(messagesName, raw, &r); {
	case errors.Is(err, ErrCorrupt):
		return ref, message.Fate{Err: fmt.Errorf("mongostore: ending of %s: %w", ref.ID, err)}, nil
	case err != nil:
		return message.Ref{}, message.Fate{}, err
	case r.Ending == nil:
		return ref, message.Fate{Ref: ref}, nil
	default:
		return ref, message.Fate{Ref: ref, Concluded: true, Ending: message.Ending(*r.Ending)}, nil
	}
}

// Conclude implements message.Store.
func (s *Messages) Conclude(ctx context.Context, conclusions []message.Conclusion) error {
	writes := make([]write, len(conclusions))
	for i, c := range conclusions {
		writes[i] = write{
			key: string(c.Ref.ID[:]), filter: append(refFilter(c.Ref), bson.E{Key: fieldEnding, Value: operator("$exists", false)}),
			update: bson.D{
				{Key: "$set", Value: bson.D{{Key: fieldEnding, Value: endingRecord(c.Ending)}}},
				{Key: "$unset", Value: bson.D{{Key: fieldUnfinished, Value: ""}}},
			},
		}
	}
	_, err := s.c.bulk(ctx, "conclude messages", writes)
	return err
}

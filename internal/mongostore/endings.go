package mongostore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fanmail/fanmail/pkg/message"
)

// endedRecord is the part of a message that says how its fan-out ended.
type endedRecord struct {
	Ending  *endingRecord `bson:"ending"`
	Lag     int64         `bson:"lag"`
	Blocked int           `bson:"blocked"`
}

// endingRecord is the stored form of an ending.
type endingRecord struct {
	Lane      string `bson:"lane"`
	Delivered int64  `bson:"delivered"`
	Skipped   int64  `bson:"skipped"`
	GivenUp   int64  `bson:"given_up,omitempty"`
	Closed    int64  `bson:"closed"`
}

// Endings implements message.Store. Refs without an author cost a query of their own, which every shard answers.
func (s *Messages) Endings(ctx context.Context, refs []message.Ref) ([]message.Ending, error) {
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
	endings := make([]message.Ending, len(refs))
	read := func(filter bson.D) error {
		projection := options.Find().SetProjection(fields(fieldID, fieldFrom, fieldEnding, fieldLag, fieldBlocked))
		return s.c.scan(ctx, "read endings", filter, projection, func() {}, func(raw bson.Raw) error {
			found, ending, err := endingOf(raw)
			if err != nil {
				return err
			}
			for _, i := range places[found.ID] {
				if refs[i].From == "" || refs[i].From == found.From {
					endings[i] = ending
				}
			}
			return nil
		})
	}
	if err := s.byRef(authored, read); err != nil {
		return nil, err
	}
	for some := range slices.Chunk(anonymous, refsPerQuery) {
		if err := read(bson.D{{Key: fieldID, Value: in(some)}}); err != nil {
			return nil, err
		}
	}
	return endings, nil
}

// endingOf returns the ending that the document of a message tells of, and of which message.
func endingOf(raw bson.Raw) (message.Ref, message.Ending, error) {
	ref, err := refOf(raw)
	if err != nil {
		return message.Ref{}, message.Ending{}, err
	}
	var r endedRecord
	switch err := decode(messagesName, raw, &r); {
	case errors.Is(err, ErrCorrupt):
		return ref, message.Ending{Err: fmt.Errorf("mongostore: ending of %s: %w", ref.ID, err)}, nil
	case err != nil:
		return message.Ref{}, message.Ending{}, err
	}
	ending := message.Ending{Ref: ref, Void: r.Lag != 0, Blocked: r.Blocked}
	if e := r.Ending; e != nil {
		ending.Concluded, ending.Lane, ending.Delivered, ending.Skipped, ending.GivenUp, ending.Closed = true, e.Lane, e.Delivered, e.Skipped, e.GivenUp, e.Closed
	}
	return ref, ending, nil
}

// Conclude implements message.Store.
func (s *Messages) Conclude(ctx context.Context, endings []message.Ending) error {
	writes := make([]write, len(endings))
	for i, e := range endings {
		record := endingRecord{Lane: e.Lane, Delivered: e.Delivered, Skipped: e.Skipped, GivenUp: e.GivenUp, Closed: e.Closed}
		writes[i] = write{
			key: string(e.Ref.ID[:]), filter: append(refFilter(e.Ref), bson.E{Key: fieldEnding, Value: operator("$exists", false)}),
			update: bson.D{
				{Key: "$set", Value: bson.D{{Key: fieldEnding, Value: record}}},
				{Key: "$unset", Value: bson.D{{Key: fieldUnfinished, Value: ""}}},
			},
		}
	}
	_, err := s.c.bulk(ctx, "conclude messages", writes)
	return err
}

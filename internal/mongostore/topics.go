package mongostore

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/topic"
)

// Topics is the store of topics.
type Topics struct{ c collection }

var _ topic.Store = (*Topics)(nil)

type topicRecord struct {
	ID      message.Topic `bson:"_id"`
	Version int32         `bson:"v"`
	Number  topic.Number  `bson:"number"`
	Parent  topic.Number  `bson:"parent"`
	InForce bool          `bson:"in_force"`
	Mark    topic.Number  `bson:"mark"`
}

// root returns the first segment of a topic.
func root(t message.Topic) string { return t.Segments()[0] }

// Get implements topic.Store.
func (s *Topics) Get(ctx context.Context, topics []message.Topic) ([]topic.Record, error) {
	records := make([]topic.Record, len(topics))
	if len(topics) == 0 {
		return records, nil
	}
	var roots []string
	seen := make(map[string]bool)
	for i, t := range topics {
		records[i] = topic.Record{Topic: t}
		if r := root(t); !seen[r] {
			seen[r], roots = true, append(roots, r)
		}
	}
	filter := bson.D{{Key: fieldRoot, Value: in(roots)}, {Key: fieldID, Value: in(topics)}}
	found, err := s.find(ctx, filter, options.Find())
	if err != nil {
		return nil, err
	}
	stored := make(map[message.Topic]topic.Record, len(found))
	for _, r := range found {
		stored[r.Topic] = r
	}
	for i, t := range topics {
		if r, ok := stored[t]; ok {
			records[i] = r
		}
	}
	return records, nil
}

func (s *Topics) find(ctx context.Context, filter bson.D, opts *options.FindOptionsBuilder) ([]topic.Record, error) {
	found, err := all[topicRecord](ctx, s.c, "find topics", filter, opts)
	if err != nil {
		return nil, err
	}
	records := make([]topic.Record, len(found))
	for i, r := range found {
		if r.Number == 0 {
			return nil, fmt.Errorf("mongostore: find topics: %w", corrupt(topicsName, fmt.Errorf("%s has no number", r.ID.Source())))
		}
		records[i] = topic.Record{Topic: r.ID, Number: r.Number, Parent: r.Parent, InForce: r.InForce, Mark: r.Mark}
	}
	return records, nil
}

// Step implements topic.Store. Each write names the record that it replaces, and what is stored then is read back. So a step may be repeated
// after a lost reply. One that comes late does no harm: what it was to replace is gone, or it is an insert that is not in force.
func (s *Topics) Step(ctx context.Context, steps []topic.Step) ([]topic.Record, error) {
	var writes []write
	var removals []mongo.WriteModel
	topics := make([]message.Topic, len(steps))
	for i, step := range steps {
		topics[i] = step.From.Topic
		filter, insert := topicFilter(step.From), step.From.Number == 0
		switch {
		case step.To.Number != 0:
			writes = append(writes, write{key: string(step.To.Topic), filter: filter, update: topicUpdate(step.To), upsert: insert})
		case !insert:
			removals = append(removals, mongo.NewDeleteOneModel().SetFilter(filter))
		}
	}
	if _, err := s.c.bulk(ctx, "change topics", writes); err != nil {
		return nil, err
	}
	if err := s.c.remove(ctx, removals); err != nil {
		return nil, err
	}
	return s.Get(ctx, topics)
}

// topicFilter returns a filter that finds a topic by its shard key if it has this record.
func topicFilter(r topic.Record) bson.D {
	filter := bson.D{{Key: fieldRoot, Value: root(r.Topic)}, {Key: fieldID, Value: r.Topic}}
	if r.Number == 0 {
		return append(filter, notThere)
	}
	filter = append(filter, bson.E{Key: fieldNumber, Value: r.Number})
	set, unset := topicFields(r)
	for _, field := range unset {
		set = append(set, bson.E{Key: field.Key, Value: operator("$exists", false)})
	}
	return append(filter, set...)
}

// topicFields returns the fields that a record has besides its number, and those that it lacks.
func topicFields(r topic.Record) (set, unset bson.D) {
	for _, field := range []struct {
		name  string
		value any
		has   bool
	}{{fieldParent, r.Parent, r.Parent != 0}, {fieldInForce, true, r.InForce}, {fieldRemoval, r.Mark, r.Mark != 0}} {
		if field.has {
			set = append(set, bson.E{Key: field.name, Value: field.value})
		} else {
			unset = append(unset, bson.E{Key: field.name, Value: ""})
		}
	}
	return set, unset
}

func topicUpdate(to topic.Record) bson.D {
	set, unset := topicFields(to)
	update := operator("$set", append(bson.D{{Key: fieldVersion, Value: int32(version)}, {Key: fieldNumber, Value: to.Number}}, set...))
	if len(unset) > 0 {
		update = append(update, bson.E{Key: "$unset", Value: unset})
	}
	return update
}

// List implements topic.Store. A topic and all topics below it are one range of ids. A list of all topics asks every shard.
func (s *Topics) List(ctx context.Context, under, after message.Topic, limit int) ([]topic.Record, error) {
	if limit <= 0 {
		return nil, nil
	}
	if under == "" {
		return s.find(ctx, bson.D{{Key: fieldID, Value: operator("$gt", after)}}, inOrder(fieldID, limit))
	}
	ids := operator("$gte", under)
	if after >= under {
		ids = operator("$gt", after)
	}
	const pastSubtree = "\x02" // topics below have byte 01 there, and all others more
	ids = append(ids, bson.E{Key: "$lt", Value: under + pastSubtree})
	return s.find(ctx, bson.D{{Key: fieldRoot, Value: root(under)}, {Key: fieldID, Value: ids}}, inOrder(fieldID, limit))
}

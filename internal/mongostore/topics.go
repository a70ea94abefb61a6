package mongostore

import (
	"context"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/topic"
)

// Topics is the store of topics.
type Topics struct{ c collection }

var _ topic.Store = (*Topics)(nil)

// topicRecord is the stored form of a topic.Record, or of a topic that was removed. Each write gives it a new revision, which no other write has.
// A write names the revision that it replaces, so that it does nothing if it comes late.
type topicRecord struct {
	ID       message.Topic `bson:"_id"`
	Version  int32         `bson:"v"`
	Revision bson.ObjectID `bson:"revision"`
	Number   topic.Number  `bson:"number"`
	Parent   topic.Number  `bson:"parent"`
	InForce  bool          `bson:"in_force"`
	Mark     topic.Number  `bson:"mark"`
	Gone     bson.DateTime `bson:"gone"` // when the topic was removed, by the server's clock
}

func (r topicRecord) record() (topic.Record, error) {
	switch {
	case r.Gone != 0:
		return topic.Record{Topic: r.ID}, nil
	case r.Number == 0:
		return topic.Record{}, fmt.Errorf("mongostore: find topics: %w", corrupt(topicsName, fmt.Errorf("%s has no number", r.ID.Source())))
	}
	return topic.Record{Topic: r.ID, Number: r.Number, Parent: r.Parent, InForce: r.InForce, Mark: r.Mark}, nil
}

// root returns the first segment of a topic.
func root(t message.Topic) string { return t.Segments()[0] }

// Get implements topic.Store.
func (s *Topics) Get(ctx context.Context, topics []message.Topic) ([]topic.Record, error) {
	stored, err := s.stored(ctx, topics)
	if err != nil {
		return nil, err
	}
	records := make([]topic.Record, len(topics))
	for i, t := range topics {
		records[i] = topic.Record{Topic: t}
		if r, ok := stored[t]; ok {
			if records[i], err = r.record(); err != nil {
				return nil, err
			}
		}
	}
	return records, nil
}

// stored returns what is stored of topics, of removed ones too.
func (s *Topics) stored(ctx context.Context, topics []message.Topic) (map[message.Topic]topicRecord, error) {
	stored := make(map[message.Topic]topicRecord, len(topics))
	if len(topics) == 0 {
		return stored, nil
	}
	roots := make([]string, len(topics))
	for i, t := range topics {
		roots[i] = root(t)
	}
	slices.Sort(roots)
	found, err := s.find(ctx, bson.D{{Key: fieldRoot, Value: in(slices.Compact(roots))}, {Key: fieldID, Value: in(topics)}}, options.Find())
	for _, r := range found {
		stored[r.ID] = r
	}
	return stored, err
}

func (s *Topics) find(ctx context.Context, filter bson.D, opts *options.FindOptionsBuilder) ([]topicRecord, error) {
	return all[topicRecord](ctx, s.c, "find topics", filter, opts)
}

// Step implements topic.Store. It reads the documents, replaces those that have the records of the steps, and reads them again. A write that
// comes late finds another revision. An insert finds that of the topic that was removed, or is refused because of the time: the server keeps
// what is removed for longer than that.
func (s *Topics) Step(ctx context.Context, steps []topic.Change) ([]topic.Record, error) {
	topics := make([]message.Topic, len(steps))
	for i, step := range steps {
		topics[i] = step.From.Topic
	}
	late := soon(ctx, min(s.c.db.opts.ClockTolerance(), s.c.db.opts.KeyGrace)/2)
	stored, err := s.stored(ctx, topics)
	if err != nil {
		return nil, err
	}
	var writes []write
	for _, step := range steps {
		there, found := stored[step.From.Topic]
		is := topic.Record{Topic: step.From.Topic}
		if found {
			if is, err = there.record(); err != nil {
				return nil, err
			}
		}
		if is == step.From && step.From != step.To {
			writes = append(writes, replaceTopic(there, found, step.To, late))
		}
	}
	if _, err := s.c.bulk(ctx, "change topics", writes); err != nil {
		return nil, err
	}
	return s.Get(ctx, topics)
}

// replaceTopic returns the write that replaces what is stored of a topic. Without a document it creates one, and fails if it comes late.
func replaceTopic(there topicRecord, found bool, to topic.Record, late bson.DateTime) write {
	w := write{key: string(to.Topic), filter: bson.D{{Key: fieldRoot, Value: root(to.Topic)}, {Key: fieldID, Value: to.Topic}}}
	var revision any = bson.NewObjectID()
	if found {
		w.filter = append(w.filter, bson.E{Key: fieldRevision, Value: there.Revision})
	} else {
		w.filter, w.upsert = append(w.filter, notThere), true
		revision = failAfter(late, fieldID, revision)
	}
	fields := bson.D{{Key: fieldRoot, Value: operator("$literal", root(to.Topic))}, {Key: fieldVersion, Value: int32(version)}, {Key: fieldRevision, Value: revision}}
	add := func(field string, has bool, value any) {
		if has {
			fields = append(fields, bson.E{Key: field, Value: value})
		}
	}
	add(fieldNumber, to.Number != 0, to.Number)
	add(fieldParent, to.Parent != 0, to.Parent)
	add(fieldInForce, to.InForce, true)
	add(fieldRemoval, to.Mark != 0, to.Mark)
	add(fieldGone, to.Number == 0, "$$NOW")
	if w.update = (mongo.Pipeline{operator("$replaceWith", fields)}); !found {
		w.update = unlessThere(fields)
	}
	return w
}

// List implements topic.Store. All topics below a topic are one range of ids; the topic itself is in front of it. A list of all topics asks every shard.
func (s *Topics) List(ctx context.Context, under, after message.Topic, limit int) ([]topic.Record, error) {
	if limit <= 0 {
		return nil, nil
	}
	filter := bson.D{{Key: fieldID, Value: operator("$gt", after)}}
	if under != "" {
		const pastSubtree = "0" // topics below have a slash there
		below := append(operator("$lt", under+pastSubtree), bson.E{Key: "$gt", Value: max(after, under+"/")})
		within := bson.E{Key: fieldRoot, Value: root(under)}
		ranges := bson.A{bson.D{within, {Key: fieldID, Value: below}}}
		if after < under {
			ranges = append(ranges, bson.D{within, {Key: fieldID, Value: under}})
		}
		filter = bson.D{{Key: "$or", Value: ranges}}
	}
	filter = append(filter, bson.E{Key: fieldGone, Value: operator("$exists", false)})
	found, err := s.find(ctx, filter, inOrder(fieldID, limit))
	if err != nil {
		return nil, err
	}
	records := make([]topic.Record, len(found))
	for i, r := range found {
		if records[i], err = r.record(); err != nil {
			return nil, err
		}
	}
	return records, nil
}

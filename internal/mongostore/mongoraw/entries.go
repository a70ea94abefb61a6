package mongoraw

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"golang.org/x/sync/errgroup"

	"github.com/fanmail/fanmail/pkg/attribute"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// Entries keeps a document for each entry of an inbox, with an index of owner, value and id for each of some attributes: the layout that buckets
// are compared with.
type Entries struct {
	client *mongo.Client
	c      *mongo.Collection
	opts   Options
	// attributes are those that documents have, indexed or not.
	attributes attribute.Set
}

// OpenEntries opens the layout in a collection that it makes. The documents have the values of attributes, and there is an index for each of indexed.
// The caller must close it.
func OpenEntries(ctx context.Context, opts Options, collection string, attributes attribute.Set, indexed []string) (*Entries, error) {
	client, err := Connect(opts.URI, nil)
	if err != nil {
		return nil, fmt.Errorf("a document for each entry: %w", err)
	}
	l := &Entries{client: client, opts: opts, attributes: attributes}
	if err := l.prepare(ctx, collection, indexed); err != nil {
		return nil, fmt.Errorf("a document for each entry: %w", err)
	}
	return l, nil
}

// prepare makes the collection.
func (l *Entries) prepare(ctx context.Context, collection string, indexed []string) error {
	db, err := Database(ctx, l.client, l.opts.Database)
	if err != nil {
		return err
	}
	if err := db.CreateCollection(ctx, collection); err != nil {
		return err
	}
	l.c = db.Collection(collection)
	if len(indexed) == 0 {
		return nil
	}
	indexes := make([]mongo.IndexModel, len(indexed))
	for i, name := range indexed {
		keys := bson.D{{Key: "owner", Value: 1}, {Key: field(name), Value: 1}, {Key: "id", Value: 1}}
		indexes[i] = mongo.IndexModel{Keys: keys, Options: options.Index().SetName("owner_" + name + "_id")}
	}
	_, err = l.c.Indexes().CreateMany(ctx, indexes)
	return err
}

// field returns the path of an attribute's values.
func field(name string) string { return "a." + name }

// Close closes the connections.
func (l *Entries) Close(ctx context.Context) error {
	return l.client.Disconnect(context.WithoutCancel(ctx))
}

// Insert inserts entries for each owner, so many documents in a command as the options say. The owner and the id of an entry are its key.
func (l *Entries) Insert(ctx context.Context, owners []message.UserID, entries []bucket.Entry) error {
	values := make([]bson.D, len(entries))
	for i, e := range entries {
		values[i] = l.values(e.Attrs)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(l.opts.Commands)
	insert := func(documents []any) {
		group.Go(func() error {
			_, err := l.c.InsertMany(ctx, documents, options.InsertMany().SetOrdered(false))
			return err
		})
	}
	var documents []any
	for _, owner := range owners {
		for i, e := range entries {
			key := bson.Binary{Data: slices.Concat([]byte(owner), []byte{0}, e.ID[:])}
			documents = append(documents, append(bson.D{{Key: "_id", Value: key}, {Key: "owner", Value: string(owner)}, {Key: "a", Value: values[i]}}, Document(e)...))
			if len(documents) == l.opts.Operations {
				insert(documents)
				documents = nil
			}
		}
	}
	if len(documents) > 0 {
		insert(documents)
	}
	return group.Wait()
}

// values returns the attributes in attrs as they are stored.
func (l *Entries) values(attrs json.RawMessage) bson.D {
	values := l.attributes.Read(attrs)
	stored := make(bson.D, 0, len(values))
	for _, d := range l.attributes.All() {
		if v, there := values[d.Name]; there {
			stored = append(stored, bson.E{Key: d.Name, Value: value(d.Type, v)})
		}
	}
	return stored
}

func value(t attribute.Type, v attribute.Value) any {
	switch t {
	case attribute.Number:
		return v.Number
	case attribute.Bool:
		return v.Bool
	case attribute.Time:
		return bson.DateTime(v.Time)
	case attribute.Strings:
		return v.Strings
	default:
		return v.Strings[0]
	}
}

// Find returns the newest entries below an id that meet all conditions, newest first. The conditions compare with one value each.
func (l *Entries) Find(ctx context.Context, owner message.UserID, conditions []attribute.Condition, below message.ID, limit int) ([]message.ID, error) {
	filter := bson.D{{Key: "owner", Value: string(owner)}, {Key: "id", Value: bson.D{{Key: "$lt", Value: Stored(below)}}}}
	for _, c := range conditions {
		path, relation := field(c.Declaration.Name), bson.E{Key: "$" + string(c.Operator), Value: value(c.Declaration.Type, c.Values[0])}
		at := slices.IndexFunc(filter, func(e bson.E) bool { return e.Key == path })
		if at < 0 {
			filter = append(filter, bson.E{Key: path, Value: bson.D{relation}})
			continue
		}
		filter[at].Value = append(filter[at].Value.(bson.D), relation) //nolint:forcetypeassert // see above
	}
	cursor, err := l.c.Find(ctx, filter, options.Find().SetSort(bson.D{{Key: "id", Value: -1}}).SetLimit(int64(limit)).SetBatchSize(int32(limit))) //nolint:gosec // a page is small
	if err != nil {
		return nil, err
	}
	var found []struct {
		ID   bson.Binary `bson:"id"`
		Body string      `bson:"body"`
	}
	if err := cursor.All(ctx, &found); err != nil {
		return nil, err
	}
	ids := make([]message.ID, len(found))
	for i, f := range found {
		copy(ids[i][:], f.ID.Data)
	}
	return ids, nil
}

// Sizes returns the sizes of the layout's collection.
func (l *Entries) Sizes(ctx context.Context) (Sizes, error) { return SizesOf(ctx, l.c) }

package mongostore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// decode reads a document, and refuses one of another format. A projection must not leave the version out.
func decode(collection string, raw bson.Raw, into any) error {
	found, ok := raw.Lookup(fieldVersion).Int32OK()
	if !ok {
		return corrupt(collection, errors.New("a document has no format version"))
	}
	if err := checkVersion(collection, found); err != nil {
		return err
	}
	if err := bson.Unmarshal(raw, into); err != nil {
		return corrupt(collection, err)
	}
	return nil
}

// all returns the documents that a query finds.
func all[T any](ctx context.Context, c collection, doing string, filter bson.D, opts *options.FindOptionsBuilder) (found []T, err error) {
	err = c.scan(ctx, doing, filter, opts, func() { found = nil }, func(raw bson.Raw) error {
		found = append(found, *new(T))
		return decode(c.Name(), raw, &found[len(found)-1])
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// allOf returns what an index holds of the documents that a query finds. An index has no format versions: who reads more of a
// document than that finds out.
func allOf[T any](ctx context.Context, c collection, doing string, filter bson.D, opts *options.FindOptionsBuilder) (found []T, err error) {
	err = c.scan(ctx, doing, filter, opts, func() { found = nil }, func(raw bson.Raw) error {
		found = append(found, *new(T))
		if err := bson.Unmarshal(raw, &found[len(found)-1]); err != nil {
			return corrupt(c.Name(), err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// scan hands each document that a query finds to use, from the beginning if it has to be repeated.
func (c collection) scan(
	ctx context.Context, doing string, filter bson.D, opts *options.FindOptionsBuilder, begin func(), use func(bson.Raw) error,
) error {
	return c.call(ctx, doing, func(ctx context.Context) error {
		begin()
		cursor, err := c.Find(ctx, filter, opts)
		if err != nil {
			return err
		}
		defer closeCursor(ctx, cursor)
		for cursor.Next(ctx) {
			if err := use(cursor.Current); err != nil {
				return err
			}
		}
		return cursor.Err()
	})
}

// closeCursor tells the server that nobody reads on, if there is more to be read; also when ctx has ended, as it often has then. A
// server keeps for minutes what nobody closes.
func closeCursor(ctx context.Context, cursor *mongo.Cursor) {
	const soon = time.Second
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), soon)
	defer cancel()
	_ = cursor.Close(ctx) // what matters is cursor.Err
}

// one returns the document of a result, or mongo.ErrNoDocuments.
func one[T any](c collection, result *mongo.SingleResult) (found T, err error) {
	raw, err := result.Raw()
	if err != nil {
		return found, err
	}
	return found, decode(c.Name(), raw, &found)
}

// has tells, within an operation, whether a filter finds a document.
func (c collection) has(ctx context.Context, filter bson.D) (bool, error) {
	err := c.FindOne(ctx, filter, options.FindOne().SetProjection(fields(fieldID))).Err()
	if errors.Is(err, mongo.ErrNoDocuments) {
		return false, nil
	}
	return err == nil, err
}

// fields is a projection onto fields and the format version. The id is left out unless it is one of them.
func fields(names ...string) bson.D {
	projection := bson.D{{Key: fieldVersion, Value: 1}, {Key: fieldID, Value: 0}}
	for _, name := range names {
		if name == fieldID {
			projection[1].Value = 1
			continue
		}
		projection = append(projection, bson.E{Key: name, Value: 1})
	}
	return projection
}

// Operators, for what reads better with than without.

func in[T any](values []T) bson.D { return operator("$in", values) }

func operator(name string, value any) bson.D { return bson.D{{Key: name, Value: value}} }

// path returns the name of a field within others.
func path(names ...any) string {
	var p strings.Builder
	for i, name := range names {
		if i > 0 {
			p.WriteByte('.')
		}
		fmt.Fprint(&p, name)
	}
	return p.String()
}

// notThere is a condition that no document of ours meets: an upsert with it makes a document or is refused by the id of one
// that is there. It must not be left out. DocumentDB lets upserts by the id alone that come at the same moment replace
// each other's documents, all of them successfully.
var notThere = bson.E{Key: fieldVersion, Value: operator("$exists", false)}

// unlessThere is the update of an upsert that makes a document by an expression, and leaves one that is there as it is. Its
// filter must not be the id alone, as notThere says; and the expression must leave the id out, which comes from the filter:
// DocumentDB would store it twice.
func unlessThere(fresh any) mongo.Pipeline {
	there := operator("$gt", bson.A{"$" + fieldVersion, nil})
	return mongo.Pipeline{operator("$replaceWith", operator("$cond", bson.A{there, "$$ROOT", fresh}))}
}

package mongostore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// idsPerQuery is how many documents one query names. Each id has less than 600 bytes, so a query stays far below 16 MiB.
const idsPerQuery = 10_000

// decode decodes a document. It refuses a document of another format version, so a projection must include the version.
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
func all[T any](ctx context.Context, c collection, doing string, filter bson.D, opts *options.FindOptionsBuilder) ([]T, error) {
	return gather(ctx, c, doing, filter, opts, func(raw bson.Raw, into *T) error { return decode(c.Name(), raw, into) })
}

// allOf returns the fields that an index holds of the documents that a query finds. An index holds no format version. A caller
// that later reads the whole document checks it then.
func allOf[T any](ctx context.Context, c collection, doing string, filter bson.D, opts *options.FindOptionsBuilder) ([]T, error) {
	return gather(ctx, c, doing, filter, opts, func(raw bson.Raw, into *T) error {
		if err := bson.Unmarshal(raw, into); err != nil {
			return corrupt(c.Name(), err)
		}
		return nil
	})
}

// readRecord is a document that was read, or the error that says how it is damaged. It has the id all the same.
type readRecord[T any] struct {
	id     string
	record T
	err    error
}

// readable returns the documents that a query finds. One that is damaged fails only itself, unless its id cannot be read. The error does not
// name the id.
func readable[T any](ctx context.Context, c collection, doing string, filter bson.D, opts *options.FindOptionsBuilder) ([]readRecord[T], error) {
	return gather(ctx, c, doing, filter, opts, func(raw bson.Raw, r *readRecord[T]) error {
		id, named := raw.Lookup(fieldID).StringValueOK()
		r.id, r.err = id, decode(c.Name(), raw, &r.record)
		if named && errors.Is(r.err, ErrCorrupt) {
			return nil
		}
		return r.err
	})
}

// byID returns the readable documents with some ids.
func byID[T any, K ~string](ctx context.Context, c collection, doing string, ids []K) (map[K]readRecord[T], error) {
	there := make(map[K]readRecord[T], len(ids))
	for some := range slices.Chunk(ids, idsPerQuery) {
		records, err := readable[T](ctx, c, doing, bson.D{{Key: fieldID, Value: in(some)}}, options.Find().SetBatchSize(idsPerQuery))
		if err != nil {
			return nil, err
		}
		for _, r := range records {
			there[K(r.id)] = r
		}
	}
	return there, nil
}

// gather returns what read makes of each document that a query finds.
func gather[T any](
	ctx context.Context, c collection, doing string, filter bson.D, opts *options.FindOptionsBuilder, read func(bson.Raw, *T) error,
) (found []T, err error) {
	err = c.scan(ctx, doing, filter, opts, func() { found = nil }, func(raw bson.Raw) error {
		found = append(found, *new(T))
		return read(raw, &found[len(found)-1])
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

var errEnough = errors.New("enough documents were read")

// scan calls begin, and then use for each document that a query finds. If the query is repeated, scan calls begin again and
// starts from the first document. If use returns errEnough, no more documents are read.
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
			if err := use(cursor.Current); errors.Is(err, errEnough) {
				return nil
			} else if err != nil {
				return err
			}
		}
		return cursor.Err()
	})
}

// closeCursor closes a cursor on the server if unread results remain. It works after ctx has ended, which is the usual case. A
// server keeps an open cursor for minutes.
func closeCursor(ctx context.Context, cursor *mongo.Cursor) {
	const soon = time.Second
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), soon)
	defer cancel()
	_ = cursor.Close(ctx) // the caller checks cursor.Err
}

// one returns the document of a result, or mongo.ErrNoDocuments.
func one[T any](c collection, result *mongo.SingleResult) (found T, err error) {
	raw, err := result.Raw()
	if err != nil {
		return found, err
	}
	return found, decode(c.Name(), raw, &found)
}

// has reports, within an operation, whether a filter finds a document.
func (c collection) has(ctx context.Context, filter bson.D) (bool, error) {
	err := c.FindOne(ctx, filter, options.FindOne().SetProjection(fields(fieldID))).Err()
	if errors.Is(err, mongo.ErrNoDocuments) {
		return false, nil
	}
	return err == nil, err
}

// fields returns a projection onto the named fields and the format version. It includes the id only if names has it.
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

// Operators as functions, where they read better than composite literals.

func in[T any](values []T) bson.D { return operator("$in", values) }

func operator(name string, value any) bson.D { return bson.D{{Key: name, Value: value}} }

// path returns the dotted name of a nested field.
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

// notThere is a condition that no document of ours meets. An upsert with it creates a document, or fails on the id of an
// existing one. Do not leave it out: in DocumentDB, simultaneous upserts by the id alone replace each other's documents and all
// succeed.
var notThere = bson.E{Key: fieldVersion, Value: operator("$exists", false)}

// unlessThere returns the update of an upsert that creates a document from an expression. It leaves an existing document
// unchanged. The filter must not be the id alone (see notThere). The expression must leave the id out, because the filter
// supplies it and DocumentDB would store it twice.
func unlessThere(fresh any) mongo.Pipeline {
	there := operator("$gt", bson.A{"$" + fieldVersion, nil})
	return mongo.Pipeline{operator("$replaceWith", operator("$cond", bson.A{there, "$$ROOT", fresh}))}
}

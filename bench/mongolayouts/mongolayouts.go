// Package mongolayouts keeps inboxes on a MongoDB server in layouts that the store's own is compared with. Each layout follows the recipe of its
// authors, with the indexes that the recipe needs.
package mongolayouts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"golang.org/x/sync/errgroup"

	"github.com/fanmail/fanmail/internal/mongostore/mongoraw"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// Names returns the names of the layouts.
func Names() []string {
	return []string{"on-read", "on-write", "counter", "open-bucket", "newest-n", "dated", "buckets"}
}

// Options say where a layout is, and how large its parts are.
type Options struct {
	// Database is one that does not exist, unless Existing is set.
	URI, Database string
	// Existing says that Open has made the layout in the database before. Close then leaves the database.
	Existing bool
	// Operations is the number of writes in a command, Commands how many commands are under way at a time, and Timeout how long a call of the
	// store may take.
	Operations, Commands int
	Timeout              time.Duration
	// BucketSize is the number of messages in a full bucket, and Newest how many messages the layout newest-n keeps.
	BucketSize, Newest int
	// Now and Logger are those of the store.
	Now    func() time.Time `json:"-"`
	Logger zerolog.Logger   `json:"-"`
}

// Layout keeps messages for recipients. One Send may run at a time, and any number of Reads.
type Layout interface {
	// Send gives a message to recipients, each named once, and returns how many documents it wrote. A majority acknowledges each.
	Send(ctx context.Context, e bucket.Entry, recipients []message.UserID) (documents int, err error)
	// Fill gives messages, ascending by id, to recipients whose inboxes are empty. The inboxes are then as if each message had been sent to all,
	// and whole buckets were written at once.
	Fill(ctx context.Context, entries []bucket.Entry, recipients []message.UserID) error
	// Read returns the newest n messages of a recipient, newest first, and the number of documents that the server returned.
	Read(ctx context.Context, recipient message.UserID, n int) (ids []message.ID, documents int, err error)
	// Written returns the bytes of all commands since Open that wrote documents.
	Written() int64
	// Sizes returns the sizes of the layout's collections, all together.
	Sizes(ctx context.Context) (Sizes, error)
	// Close drops the database, unless Existing was set, and closes the connections.
	Close(ctx context.Context) error
}

// Open makes the collections and the indexes of a layout. The caller must close it.
func Open(ctx context.Context, name string, opts Options) (Layout, error) {
	if !slices.Contains(Names(), name) {
		return nil, fmt.Errorf("layout %q is not one of %v", name, Names())
	}
	if name == "buckets" {
		return openBuckets(ctx, opts)
	}
	l := &layout{name: name, opts: opts}
	var err error
	if l.client, err = mongoraw.Connect(opts.URI, l.monitor()); err != nil {
		return nil, fmt.Errorf("layout %s: %w", name, err)
	}
	if err := l.prepare(ctx); err != nil {
		return nil, fmt.Errorf("layout %s: %w", name, errors.Join(err, l.client.Disconnect(context.WithoutCancel(ctx))))
	}
	return l, nil
}

// written counts what commands write.
type written struct{ bytes, documents atomic.Int64 }

func (w *written) monitor() *event.CommandMonitor {
	return &event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) {
		var lists struct {
			Documents []bson.Raw `bson:"documents"`
			Updates   []bson.Raw `bson:"updates"`
		}
		switch e.CommandName {
		case "insert", "update":
			if bson.Unmarshal(e.Command, &lists) != nil {
				return
			}
			w.documents.Add(int64(len(lists.Documents) + len(lists.Updates)))
		case "findAndModify":
			w.documents.Add(1)
		default:
			return
		}
		w.bytes.Add(int64(len(e.Command)))
	}}
}

// Written implements Layout.
func (w *written) Written() int64 { return w.bytes.Load() }

// layout is a layout of a recipe.
type layout struct {
	written
	name   string
	opts   Options
	client *mongo.Client
	db     *mongo.Database
	// c has the messages or the buckets, and counters is that of counter.
	c, counters *mongo.Collection
}

func (l *layout) prepare(ctx context.Context) error {
	var err error
	if l.db, err = readLike(ctx, l.client, l.opts.Database); err != nil {
		return err
	}
	l.c, l.counters = l.db.Collection("inbox"), l.db.Collection("counters")
	if l.opts.Existing {
		return nil
	}
	for _, c := range l.collections() {
		if err := l.db.CreateCollection(ctx, c.Name()); err != nil {
			return err
		}
	}
	unique := options.Index().SetUnique(true)
	var indexes []mongo.IndexModel
	switch l.name {
	case "on-read":
		indexes = []mongo.IndexModel{{Keys: bson.D{{Key: "to", Value: 1}, {Key: "_id", Value: 1}}}}
	case "on-write":
		indexes = []mongo.IndexModel{{Keys: bson.D{{Key: "owner", Value: 1}, {Key: "id", Value: 1}}, Options: unique}}
	case "counter":
		indexes = []mongo.IndexModel{{Keys: bson.D{{Key: "owner", Value: 1}, {Key: "sequence", Value: 1}}, Options: unique}}
	case "open-bucket":
		indexes = []mongo.IndexModel{{Keys: bson.D{{Key: "owner", Value: 1}, {Key: "opened", Value: 1}}}}
	case "dated":
		indexes = []mongo.IndexModel{
			{Keys: bson.D{{Key: "owner", Value: 1}, {Key: "day", Value: 1}}, Options: unique},
			{Keys: bson.D{{Key: "expires", Value: 1}}, Options: options.Index().SetExpireAfterSeconds(0)},
		}
	default: // newest-n finds a document by its _id
		return nil
	}
	_, err = l.c.Indexes().CreateMany(ctx, indexes)
	return err
}

func (l *layout) collections() []*mongo.Collection {
	if l.name == "counter" {
		return []*mongo.Collection{l.c, l.counters}
	}
	return []*mongo.Collection{l.c}
}

// Send implements Layout.
func (l *layout) Send(ctx context.Context, e bucket.Entry, recipients []message.UserID) (documents int, err error) {
	before := l.documents.Load()
	switch l.name {
	case "on-read":
		_, err = l.c.InsertOne(ctx, append(bson.D{{Key: "_id", Value: mongoraw.Stored(e.ID)}, {Key: "to", Value: recipients}}, mongoraw.Document(e)[1:]...))
		err = withoutDuplicates(err)
	case "counter":
		err = l.count(ctx, e, recipients)
	default:
		err = l.bulk(ctx, recipients, func(_ int, owner message.UserID) mongo.WriteModel { return l.write(owner, e) })
	}
	if err != nil {
		return 0, fmt.Errorf("layout %s: send: %w", l.name, err)
	}
	return int(l.documents.Load() - before), nil
}

// bulk carries out a write for each recipient. It ignores the documents that were inserted before.
func (l *layout) bulk(ctx context.Context, recipients []message.UserID, write func(i int, owner message.UserID) mongo.WriteModel) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(l.opts.Commands)
	for first := 0; first < len(recipients); first += l.opts.Operations {
		group.Go(func() error {
			var models []mongo.WriteModel
			for i := first; i < min(first+l.opts.Operations, len(recipients)); i++ {
				models = append(models, write(i, recipients[i]))
			}
			_, err := l.c.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false))
			return withoutDuplicates(err)
		})
	}
	return group.Wait()
}

// withoutDuplicates returns nil if an error says only that documents are there.
func withoutDuplicates(err error) error {
	const duplicate = 11000
	var bulk mongo.BulkWriteException
	if errors.As(err, &bulk) && bulk.WriteConcernError == nil {
		if slices.ContainsFunc(bulk.WriteErrors, func(e mongo.BulkWriteError) bool { return e.Code != duplicate }) {
			return err
		}
		return nil
	}
	if mongo.IsDuplicateKeyError(err) {
		return nil
	}
	return err
}

// Read implements Layout.
func (l *layout) Read(ctx context.Context, recipient message.UserID, n int) (ids []message.ID, documents int, err error) {
	switch l.name {
	case "on-read":
		ids, documents, err = l.messages(ctx, bson.D{{Key: "to", Value: string(recipient)}}, "_id", n)
	case "on-write":
		ids, documents, err = l.messages(ctx, bson.D{{Key: "owner", Value: string(recipient)}}, "id", n)
	case "newest-n":
		ids, documents, err = l.newest(ctx, recipient, n)
	default:
		ids, documents, err = l.buckets(ctx, recipient, n)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("layout %s: read: %w", l.name, err)
	}
	return ids, documents, nil
}

// Sizes implements Layout.
func (l *layout) Sizes(ctx context.Context) (Sizes, error) {
	return sizesOf(ctx, l.collections())
}

// sizesOf adds the sizes of collections. The name of an index begins with that of its collection.
func sizesOf(ctx context.Context, collections []*mongo.Collection) (all Sizes, err error) {
	for _, c := range collections {
		s, err := SizesOf(ctx, c)
		if err != nil {
			return all, err
		}
		all.Documents += s.Documents
		all.Storage += s.Storage
		for _, x := range s.Indexes {
			all.Indexes = append(all.Indexes, IndexSize{Name: c.Name() + "." + x.Name, Bytes: x.Bytes})
		}
	}
	return all, nil
}

// Close implements Layout.
func (l *layout) Close(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	var err error
	if !l.opts.Existing {
		err = l.db.Drop(ctx)
	}
	return errors.Join(err, l.client.Disconnect(ctx))
}

// readLike returns a database that is read with the read concern of the store.
func readLike(ctx context.Context, client *mongo.Client, name string) (*mongo.Database, error) {
	var hello struct {
		SetName string `bson:"setName"`
		Msg     string `bson:"msg"`
	}
	if err := client.Database("admin").RunCommand(ctx, bson.D{{Key: "hello", Value: 1}}).Decode(&hello); err != nil {
		return nil, err
	}
	concern := readconcern.Local()
	if hello.SetName != "" || hello.Msg == "isdbgrid" {
		concern = readconcern.Linearizable()
	}
	return client.Database(name, options.Database().SetReadConcern(concern)), nil
}

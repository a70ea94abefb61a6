package mongolayouts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/fanmail/fanmail/internal/mongostore/mongoraw"
)

// Sizes are the sizes of a collection, as the server tells them.
type Sizes struct {
	// Documents are the bytes of all documents before they are compressed. DocumentDB estimates them.
	Documents float64
	// Storage are the bytes of all documents on disk.
	Storage float64
	Indexes []IndexSize
}

// IndexSize is the size of an index on disk, in bytes.
type IndexSize struct {
	Name  string
	Bytes float64
}

// InboxSizes returns the sizes of the store's inboxes.
func InboxSizes(ctx context.Context, uri, database string) (s Sizes, err error) {
	err = with(ctx, uri, func(client *mongo.Client) error {
		s, err = SizesOf(ctx, client.Database(database).Collection("inbox"))
		return err
	})
	return s, err
}

// SizesOf returns the sizes of a collection, of all shards together. The indexes are in the order of their names.
func SizesOf(ctx context.Context, c *mongo.Collection) (Sizes, error) {
	var found []struct {
		Storage struct {
			Size    float64            `bson:"size"`
			OnDisk  float64            `bson:"storageSize"`
			Indexes map[string]float64 `bson:"indexSizes"`
		} `bson:"storageStats"`
	}
	cursor, err := c.Aggregate(ctx, bson.A{bson.D{{Key: "$collStats", Value: bson.D{{Key: "storageStats", Value: bson.D{}}}}}})
	if err == nil {
		err = cursor.All(ctx, &found)
	}
	if err != nil {
		return Sizes{}, fmt.Errorf("sizes of %s: %w", c.Name(), err)
	}
	var s Sizes
	bytes := make(map[string]float64)
	for _, shard := range found {
		s.Documents += shard.Storage.Size
		s.Storage += shard.Storage.OnDisk
		for name, size := range shard.Storage.Indexes {
			bytes[name] += size
		}
	}
	for _, name := range slices.SortedFunc(maps.Keys(bytes), cmp.Compare) {
		s.Indexes = append(s.Indexes, IndexSize{Name: name, Bytes: bytes[name]})
	}
	return s, nil
}

// Server returns the name and the version that a server tells, or an empty text.
func Server(ctx context.Context, uri string) (name string, err error) {
	err = with(ctx, uri, func(client *mongo.Client) error {
		var build struct {
			Version  string
			FerretDB struct{ Version string } `bson:"ferretdb"`
		}
		if err := client.Database("admin").RunCommand(ctx, bson.D{{Key: "buildInfo", Value: 1}}).Decode(&build); err != nil {
			return err
		}
		switch {
		case build.FerretDB.Version != "":
			name = "FerretDB " + build.FerretDB.Version + ", as MongoDB " + build.Version
		case build.Version != "":
			name = "MongoDB " + build.Version
		}
		return nil
	})
	return name, err
}

// with calls do with a client of a server.
func with(ctx context.Context, uri string, do func(*mongo.Client) error) (err error) {
	client, err := mongoraw.Connect(uri, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Disconnect(context.WithoutCancel(ctx))) }()
	return do(client)
}

// ProcessorTime returns the processor time that the process of a server has used, and whether the server tells it. MongoDB on Linux does.
func ProcessorTime(ctx context.Context, uri string) (used time.Duration, told bool, err error) {
	err = with(ctx, uri, func(client *mongo.Client) error {
		var status struct {
			Info struct {
				User   *int64 `bson:"user_time_us"`
				System *int64 `bson:"system_time_us"`
			} `bson:"extra_info"`
		}
		err := client.Database("admin").RunCommand(ctx, bson.D{{Key: "serverStatus", Value: 1}}).Decode(&status)
		if _, refused := errors.AsType[mongo.CommandError](err); refused { // another server
			return nil
		}
		if err == nil && status.Info.User != nil && status.Info.System != nil {
			used, told = time.Duration(*status.Info.User+*status.Info.System)*time.Microsecond, true
		}
		return err
	})
	return used, told, err
}

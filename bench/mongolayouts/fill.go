package mongolayouts

import (
	"context"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"golang.org/x/sync/errgroup"

	"github.com/fanmail/fanmail/internal/mongostore/mongoraw"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// filled is about the number of messages in a command of Fill.
const filled = 5000

// Fill implements Layout.
func (l *layout) Fill(ctx context.Context, entries []bucket.Entry, recipients []message.UserID) error {
	if l.name == "on-read" {
		for _, e := range entries {
			if _, err := l.Send(ctx, e, recipients); err != nil {
				return err
			}
		}
		return nil
	}
	group, one := errgroup.WithContext(ctx)
	group.SetLimit(l.opts.Commands)
	for owners := range slices.Chunk(recipients, max(1, filled/max(1, len(entries)))) {
		group.Go(func() error {
			var documents, counters []any
			for _, owner := range owners {
				documents = append(documents, l.documentsOf(owner, entries)...)
				counters = append(counters, bson.D{{Key: "_id", Value: string(owner)}, {Key: "count", Value: len(entries)}})
			}
			if l.name == "counter" {
				if err := insert(one, l.counters, counters); err != nil {
					return err
				}
			}
			return insert(one, l.c, documents)
		})
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("layout %s: fill: %w", l.name, err)
	}
	return nil
}

func insert(ctx context.Context, c *mongo.Collection, documents []any) error {
	_, err := c.InsertMany(ctx, documents, options.InsertMany().SetOrdered(false))
	return err
}

// documentsOf returns the documents of a recipient who has got entries, as the writes of write and count would leave them.
func (l *layout) documentsOf(owner message.UserID, entries []bucket.Entry) (documents []any) {
	self := bson.E{Key: "owner", Value: string(owner)}
	switch l.name {
	case "on-write":
		for _, e := range entries {
			documents = append(documents, append(bson.D{self}, mongoraw.Document(e)...))
		}
	case "newest-n":
		newest := entries[max(0, len(entries)-l.opts.Newest):]
		documents = append(documents, bson.D{{Key: "_id", Value: string(owner)}, pushed(newest)})
	case "dated":
		for len(entries) > 0 {
			begin := entries[0].ID.Time().Truncate(day)
			end := slices.IndexFunc(entries, func(e bucket.Entry) bool { return e.ID.Time().Truncate(day).After(begin) })
			if end < 0 {
				end = len(entries)
			}
			documents = append(documents, bson.D{
				self, {Key: "day", Value: begin}, pushed(entries[:end]), {Key: "expires", Value: begin.Add(lifetime)},
			})
			entries = entries[end:]
		}
	default: // counter and open-bucket
		sequence := 0
		for some := range slices.Chunk(entries, l.opts.BucketSize) {
			fields := bson.D{self, {Key: "sequence", Value: sequence}, pushed(some)}
			if l.name == "open-bucket" {
				fields = bson.D{self, {Key: "count", Value: len(some)}, pushed(some), {Key: "opened", Value: some[0].ID.Time()}}
			}
			documents = append(documents, fields)
			sequence++
		}
	}
	return documents
}

// pushed is the field that pushes of entries leave.
func pushed(entries []bucket.Entry) bson.E {
	all := make(bson.A, len(entries))
	for i, e := range entries {
		all[i] = mongoraw.Document(e)
	}
	return bson.E{Key: "entries", Value: all}
}

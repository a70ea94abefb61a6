package damage

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// Database is a database on a MongoDB server.
type Database struct{ URI, Name string }

// Remove implements Store. Of the highest entry in a bucket nothing is left; the slot of another one stays counted.
func (d Database) Remove(ctx context.Context, owner message.UserID, id message.ID) error {
	return d.open(ctx, func(inbox *mongo.Collection) error {
		var holder struct {
			Floor   *bson.Binary `bson:"floor"`
			Entries []struct {
				ID bson.Binary `bson:"id"`
			} `bson:"entries"`
		}
		if err := found(inbox.FindOne(ctx, holding(owner, id)).Decode(&holder), owner, id); err != nil {
			return err
		}
		update := bson.D{{Key: "$unset", Value: bson.D{{Key: "entries.$", Value: 1}}}}
		if rest := len(holder.Entries) - 1; rest > 0 && bytes.Equal(holder.Entries[rest].ID.Data, id[:]) {
			last := holder.Entries[0].ID
			if holder.Floor != nil {
				last = *holder.Floor
			}
			for _, e := range holder.Entries[:rest] {
				if bytes.Compare(last.Data, e.ID.Data) < 0 {
					last = e.ID
				}
			}
			update = bson.D{
				{Key: "$pop", Value: bson.D{{Key: "entries", Value: 1}}},
				{Key: "$inc", Value: bson.D{{Key: "slots", Value: -1}}},
				{Key: "$set", Value: bson.D{{Key: "last", Value: last}}},
			}
		}
		_, err := inbox.UpdateOne(ctx, holding(owner, id), update)
		return err
	})
}

// found returns what looking for an entry came to.
func found(err error, owner message.UserID, id message.ID) error {
	if errors.Is(err, mongo.ErrNoDocuments) {
		return fmt.Errorf("%s in the inbox of %s: %w", id, owner, ErrNotFound)
	}
	return err
}

// Double implements Store.
func (d Database) Double(ctx context.Context, owner message.UserID, id message.ID) error {
	return d.open(ctx, func(inbox *mongo.Collection) error {
		var holder struct {
			Entries []bson.Raw `bson:"entries"`
		}
		only := options.FindOne().SetProjection(bson.D{{Key: "entries.$", Value: 1}})
		if err := found(inbox.FindOne(ctx, holding(owner, id), only).Decode(&holder), owner, id); err != nil {
			return err
		}
		return appendTo(ctx, inbox, owner, holder.Entries[0])
	})
}

// appendTo appends an entry to the last bucket of an inbox, or to a new one if that is full.
func appendTo(ctx context.Context, inbox *mongo.Collection, owner message.UserID, entry bson.Raw) error {
	var head struct {
		Version  int32         `bson:"v"`
		Sequence int64         `bson:"sequence"`
		Slots    int32         `bson:"slots"`
		Last     bson.RawValue `bson:"last"`
	}
	highest := options.FindOne().SetSort(bson.D{{Key: "sequence", Value: -1}})
	if err := inbox.FindOne(ctx, bson.D{{Key: "owner", Value: owner}}, highest).Decode(&head); err != nil {
		return err
	}
	if head.Slots < bucket.Capacity {
		_, err := inbox.UpdateOne(ctx, bson.D{{Key: "owner", Value: owner}, {Key: "sequence", Value: head.Sequence}}, bson.D{
			{Key: "$push", Value: bson.D{{Key: "entries", Value: entry}}}, {Key: "$inc", Value: bson.D{{Key: "slots", Value: 1}}},
		})
		return err
	}
	_, err := inbox.InsertOne(ctx, bson.D{
		{Key: "v", Value: head.Version},
		{Key: "owner", Value: owner},
		{Key: "sequence", Value: head.Sequence + 1},
		{Key: "slots", Value: 1},
		{Key: "entries", Value: bson.A{entry}},
		{Key: "floor", Value: head.Last},
		{Key: "last", Value: head.Last},
	})
	return err
}

func holding(owner message.UserID, id message.ID) bson.D {
	const uuid = 4 // the subtype of a binary
	return bson.D{{Key: "owner", Value: owner}, {Key: "entries.id", Value: bson.Binary{Subtype: uuid, Data: id[:]}}}
}

func (d Database) open(ctx context.Context, do func(inbox *mongo.Collection) error) error {
	client, err := mongo.Connect(options.Client().ApplyURI(d.URI))
	if err != nil {
		return fmt.Errorf("connect to the server: %w", err)
	}
	return errors.Join(do(client.Database(d.Name).Collection("inbox")), client.Disconnect(ctx))
}

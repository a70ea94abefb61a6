package mongoraw

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fanmail/fanmail/pkg/identity"
	"github.com/fanmail/fanmail/pkg/message"
)

// Identities keeps all identities of a user in one document, an array for each kind, with an index for each kind: the layout that the store's
// own is compared with. A unique index keeps an identity from having two users, except on a sharded cluster, which cannot have that index.
type Identities struct {
	client  *mongo.Client
	own     *mongo.Collection // the store's
	users   *mongo.Collection
	sharded bool
}

// OpenIdentities opens the layout in a database that has the store's collections, and creates its indexes. On a sharded cluster, it shards both
// layouts. The caller must close it.
func OpenIdentities(ctx context.Context, uri, database string, kinds []identity.Kind) (*Identities, error) {
	client, err := Connect(uri, nil)
	if err != nil {
		return nil, err
	}
	db := client.Database(database)
	l := &Identities{client: client, own: db.Collection("identities"), users: db.Collection("users_with_identities")}
	if err := l.prepare(ctx, database, kinds); err != nil {
		return nil, fmt.Errorf("identities in users' documents: %w", err)
	}
	return l, nil
}

func (l *Identities) prepare(ctx context.Context, database string, kinds []identity.Kind) error {
	admin := l.client.Database("admin")
	var hello struct {
		Msg string `bson:"msg"`
	}
	if err := admin.RunCommand(ctx, bson.D{{Key: "hello", Value: 1}}).Decode(&hello); err != nil {
		return err
	}
	l.sharded = hello.Msg == "isdbgrid"
	if l.sharded {
		commands := []bson.D{{{Key: "enableSharding", Value: database}}}
		for _, c := range []*mongo.Collection{l.own, l.users} {
			commands = append(commands, bson.D{
				{Key: "shardCollection", Value: database + "." + c.Name()}, {Key: "key", Value: bson.D{{Key: "_id", Value: "hashed"}}},
			})
		}
		for _, command := range commands {
			if err := admin.RunCommand(ctx, command).Err(); err != nil {
				return err
			}
		}
	}
	var indexes []mongo.IndexModel
	for _, kind := range kinds {
		there := bson.D{{Key: string(kind), Value: bson.D{{Key: "$exists", Value: true}}}}
		indexes = append(indexes, mongo.IndexModel{
			Keys:    bson.D{{Key: string(kind), Value: 1}},
			Options: options.Index().SetUnique(!l.sharded).SetPartialFilterExpression(there),
		})
	}
	_, err := l.users.Indexes().CreateMany(ctx, indexes)
	return err
}

// Close closes the connections.
func (l *Identities) Close(ctx context.Context) error {
	return l.client.Disconnect(context.WithoutCancel(ctx))
}

// Sharded reports whether the server is the router of a sharded cluster.
func (l *Identities) Sharded() bool { return l.sharded }

// Claim adds identities to the documents of users, in one command.
func (l *Identities) Claim(ctx context.Context, ids []identity.Identity, users []message.UserID) error {
	models := make([]mongo.WriteModel, len(ids))
	for i, id := range ids {
		models[i] = mongo.NewUpdateOneModel().SetUpsert(true).SetFilter(bson.D{{Key: "_id", Value: string(users[i])}}).
			SetUpdate(bson.D{{Key: "$addToSet", Value: bson.D{{Key: string(id.Kind), Value: id.Value}}}})
	}
	_, err := l.users.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false))
	return err
}

// Lookup returns how many users have any of some identities of one kind.
func (l *Identities) Lookup(ctx context.Context, ids []identity.Identity) (int, error) {
	var found []bson.Raw
	cursor, err := l.users.Find(ctx, byValue(ids))
	if err == nil {
		err = cursor.All(ctx, &found)
	}
	return len(found), err
}

// byValue returns a filter for users with identities of one kind.
func byValue(ids []identity.Identity) bson.D {
	values := make(bson.A, len(ids))
	for i, id := range ids {
		values[i] = id.Value
	}
	return bson.D{{Key: string(ids[0].Kind), Value: bson.D{{Key: "$in", Value: values}}}}
}

// Shards returns how many shards a lookup of an identity asks in the store's layout and in this one, as the server explains it.
func (l *Identities) Shards(ctx context.Context, id identity.Identity) (own, users int, err error) {
	if own, err = shards(ctx, l.own, bson.D{{Key: "_id", Value: id.Key()}}); err == nil {
		users, err = shards(ctx, l.users, byValue([]identity.Identity{id}))
	}
	return own, users, err
}

func shards(ctx context.Context, c *mongo.Collection, filter bson.D) (int, error) {
	var plan struct {
		QueryPlanner struct {
			WinningPlan struct {
				Shards bson.A `bson:"shards"`
			} `bson:"winningPlan"`
		} `bson:"queryPlanner"`
	}
	find := bson.D{{Key: "find", Value: c.Name()}, {Key: "filter", Value: filter}}
	err := c.Database().RunCommand(ctx, bson.D{{Key: "explain", Value: find}, {Key: "verbosity", Value: "queryPlanner"}}).Decode(&plan)
	return max(1, len(plan.QueryPlanner.WinningPlan.Shards)), err
}

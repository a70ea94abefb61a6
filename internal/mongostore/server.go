package mongostore

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// server is what a server says of itself.
type server struct {
	// SetName is the name of its replica set; empty where it is of none.
	SetName string `bson:"setName"`
	// Msg is isdbgrid for a mongos, the router of a sharded cluster.
	Msg string `bson:"msg"`
}

func (s server) sharded() bool { return s.Msg == "isdbgrid" }

// replicated tells whether there is more than one server that could take itself for the primary.
func (s server) replicated() bool { return s.SetName != "" || s.sharded() }

// greet asks the server what it is, over and over until it answers.
func (db *DB) greet(ctx context.Context) (s server, err error) {
	for {
		err := db.call(ctx, "connect", func(ctx context.Context) error {
			return db.client.Database("admin").RunCommand(ctx, bson.D{{Key: "hello", Value: 1}}).Decode(&s)
		})
		if !errors.Is(err, ErrUnavailable) {
			return s, err
		}
		if ctx.Err() != nil {
			return s, fmt.Errorf("%w: %w", err, ctx.Err())
		}
		db.opts.Logger.Warn().Err(err).Msg("the database server does not answer: waiting for it")
	}
}

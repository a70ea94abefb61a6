package mongostore

import (
	"context"
	"errors"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/fanmail/fanmail/internal/retention"
	"github.com/fanmail/fanmail/pkg/message"
)

// roundID is the id of the record of the walk over all users.
const roundID = "walk"

// Retention is the store of the record of the walk over all users: one document beside that of the format.
type Retention struct{ c collection }

var _ retention.Store = (*Retention)(nil)

type roundRecord struct {
	ID        string         `bson:"_id"`
	Version   int32          `bson:"v"`
	Revision  int64          `bson:"revision"`
	Began     bson.DateTime  `bson:"began"`
	Ended     bool           `bson:"ended,omitempty"`
	Partition int32          `bson:"partition,omitempty"`
	After     message.UserID `bson:"after,omitempty"`
	Token     string         `bson:"token,omitempty"`
	Until     bson.DateTime  `bson:"until,omitempty"`
}

// Load implements retention.Store.
func (s *Retention) Load(ctx context.Context) (retention.Round, error) {
	var found roundRecord
	err := s.c.call(ctx, "read the walk over all users", func(ctx context.Context) (err error) {
		found, err = one[roundRecord](s.c, s.c.FindOne(ctx, bson.D{{Key: fieldID, Value: roundID}}))
		return err
	})
	switch {
	case errors.Is(err, mongo.ErrNoDocuments):
		return retention.Round{}, nil
	case err != nil:
		return retention.Round{}, err
	}
	round := retention.Round{
		Revision: found.Revision, Began: timeOf(found.Began), Ended: found.Ended, Partition: int(found.Partition), After: found.After,
		Token: found.Token,
	}
	if found.Until != 0 {
		round.Until = timeOf(found.Until)
	}
	return round, nil
}

// Replace implements retention.Store.
func (s *Retention) Replace(ctx context.Context, from, to retention.Round) error {
	document := roundRecord{
		ID: roundID, Version: version, Revision: from.Revision + 1, Began: date(to.Began), Ended: to.Ended,
		Partition: int32(to.Partition), After: to.After, Token: to.Token, //nolint:gosec // there are at most 256 partitions
	}
	if !to.Until.IsZero() {
		document.Until = date(to.Until)
	}
	return s.c.replaceRevised(ctx, "record the walk over all users", roundID, from.Revision, document, retention.ErrChanged)
}

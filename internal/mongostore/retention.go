package mongostore

import (
	"context"
	"errors"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/fanmail/fanmail/internal/retention"
	"github.com/fanmail/fanmail/pkg/message"
)

// The ids of the records of the walk over all users, of the pass over all edges, and of the process that resumes stopped messages.
const (
	walkID   = "walk"
	passesID = "edges"
	sweepID  = "sweep"
)

// Retention is the store of one of these records: a document beside that of the format.
type Retention struct {
	c  collection
	id string
}

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
	Number    int64          `bson:"number,omitempty"`
	Target    *bson.Binary   `bson:"target,omitempty"`
	AsOf      bson.DateTime  `bson:"as_of,omitempty"`
	Reading   bson.DateTime  `bson:"reading,omitempty"`
	Missed    bool           `bson:"missed,omitempty"`
	LowWater  *bson.Binary   `bson:"low_water,omitempty"`
	Proven    int64          `bson:"proven,omitempty"`
	Active    int64          `bson:"active,omitempty"`
	Dormant   int64          `bson:"dormant,omitempty"`
	// Those of the last round.
	CountedActive  int64 `bson:"counted_active,omitempty"`
	CountedDormant int64 `bson:"counted_dormant,omitempty"`
}

// marks returns the ids of a round with the fields that hold them.
func (r *roundRecord) marks(to *retention.Round) map[**bson.Binary]*message.ID {
	return map[**bson.Binary]*message.ID{&r.Target: &to.Target, &r.LowWater: &to.LowWater}
}

// times returns the times of a round that may be zero, with the fields that hold them.
func (r *roundRecord) times(to *retention.Round) map[*bson.DateTime]*time.Time {
	return map[*bson.DateTime]*time.Time{&r.Until: &to.Until, &r.AsOf: &to.AsOf, &r.Reading: &to.Reading}
}

// Load implements retention.Store.
func (s *Retention) Load(ctx context.Context) (retention.Round, error) {
	var found roundRecord
	err := s.c.call(ctx, "read who walks or resumes", func(ctx context.Context) (err error) {
		found, err = one[roundRecord](s.c, s.c.FindOne(ctx, bson.D{{Key: fieldID, Value: s.id}}))
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
		Token: found.Token, Number: found.Number, Missed: found.Missed, Proven: found.Proven,
		Users:   retention.Census{Active: found.Active, Dormant: found.Dormant},
		Counted: retention.Census{Active: found.CountedActive, Dormant: found.CountedDormant},
	}
	for stored, id := range found.marks(&round) {
		if *stored == nil {
			continue
		}
		if *id, err = idOf(metaName, **stored); err != nil {
			return retention.Round{}, err
		}
	}
	for stored, at := range found.times(&round) {
		if *stored != 0 {
			*at = timeOf(*stored)
		}
	}
	return round, nil
}

// Replace implements retention.Store. At revision 0 there is no document, and it inserts one.
func (s *Retention) Replace(ctx context.Context, from, to retention.Round) error {
	document := roundRecord{
		ID: s.id, Version: version, Revision: from.Revision + 1, Began: date(to.Began), Ended: to.Ended,
		Partition: int32(to.Partition), After: to.After, Token: to.Token, //nolint:gosec // there are at most 256 partitions
		Number: to.Number, Missed: to.Missed, Proven: to.Proven,
		Active: to.Users.Active, Dormant: to.Users.Dormant, CountedActive: to.Counted.Active, CountedDormant: to.Counted.Dormant,
	}
	for stored, id := range document.marks(&to) {
		if !id.IsZero() {
			*stored = new(uuid(*id))
		}
	}
	for stored, at := range document.times(&to) {
		if !at.IsZero() {
			*stored = date(*at)
		}
	}
	return s.c.call(ctx, "record who walks or resumes", func(ctx context.Context) error {
		if from.Revision == 0 {
			_, err := s.c.InsertOne(ctx, document)
			if duplicate(err) {
				return retention.ErrChanged
			}
			return err
		}
		result, err := s.c.ReplaceOne(ctx, bson.D{{Key: fieldID, Value: s.id}, {Key: fieldRevision, Value: from.Revision}}, document)
		if err == nil && result.MatchedCount == 0 {
			return retention.ErrChanged
		}
		return err
	})
}

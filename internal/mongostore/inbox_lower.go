package mongostore

import (
	"context"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// Lower implements bucket.Store by one update. The update never touches late: an entry that came late stays one. If a reply was lost, the
// repetition finds the bounds that the first attempt wrote.
func (s *Inbox) Lower(ctx context.Context, owner message.UserID, as bucket.Outline, floor, last message.ID) (applied bool, err error) {
	floor, last = as.Lowered(floor, last)
	at := append(bucketOf(owner, as.Sequence), versionIs(as.Decl), noStub, bson.E{Key: fieldSlots, Value: as.Slots()})
	from := append(slices.Clip(at), boundsAre(as.Floor, as.Last)...)
	to := append(slices.Clip(at), boundsAre(floor, last)...)
	repeated := false
	err = s.c.call(ctx, "lower bounds", func(ctx context.Context) error {
		result, err := s.c.UpdateOne(ctx, from, setBounds(floor, last))
		applied = err == nil && result.MatchedCount == 1
		if err == nil && !applied && repeated {
			applied, err = s.c.has(ctx, to)
		}
		repeated = true
		return err
	})
	if err != nil {
		return false, fmt.Errorf("lower the bounds of bucket %d of %s: %w", as.Sequence, owner, err)
	}
	return applied, nil
}

// boundsAre is a condition on a bucket: it has these bounds.
func boundsAre(floor, last message.ID) bson.D {
	return bson.D{floorIs(floor), {Key: fieldLast, Value: uuid(last)}}
}

// floorIs is a condition on a bucket. A floor of zero is not stored. An upsert takes the floor of a new bucket from it.
func floorIs(floor message.ID) bson.E {
	if floor.IsZero() {
		return bson.E{Key: fieldFloor, Value: operator("$exists", false)}
	}
	return bson.E{Key: fieldFloor, Value: uuid(floor)}
}

func setBounds(floor, last message.ID) bson.D {
	set := operator(fieldLast, uuid(last))
	if floor.IsZero() {
		return bson.D{{Key: "$set", Value: set}, {Key: "$unset", Value: operator(fieldFloor, "")}}
	}
	return bson.D{{Key: "$set", Value: append(set, bson.E{Key: fieldFloor, Value: uuid(floor)})}}
}

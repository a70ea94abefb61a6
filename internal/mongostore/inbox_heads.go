package mongostore

import (
	"cmp"
	"context"
	"math"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

const (
	// headsAtOnce is how many owners one query covers.
	headsAtOnce = 200
	// nearby is how many buckets of an owner the first query covers, from the hint up. Mostly one or two of them exist.
	nearby = 4
)

// Heads implements bucket.Store. The sequences of buckets have no gap. So the highest bucket found is the head, unless it is
// the last one that the query covered. In this rare case the search continues above it, at distances that double.
//
// Each bucket is read at one moment. The query that found no bucket above it ran at another moment, which may have been
// earlier. So the result may be a full bucket that is no longer the head. The caller would see the same if it had read just
// before the new bucket was created.
func (s *Inbox) Heads(ctx context.Context, hints []bucket.Head) ([]bucket.Bucket, error) {
	heads := make([]bucket.Bucket, len(hints))
	at := make([]known, len(hints))
	open := make([]int, len(hints))
	for i, h := range hints {
		at[i], open[i] = known{owner: h.Owner, sequence: h.Hint.Sequence}, i
	}
	for wanted := sequencesNear; len(open) > 0; wanted = sequencesAbove {
		found, err := s.highest(ctx, at, open, wanted)
		if err != nil {
			return nil, err
		}
		open = slices.DeleteFunc(open, func(i int) bool {
			b, ok := found[at[i].owner]
			if !ok || b.Sequence < at[i].sequence || heads[i].Slots > 0 && b.Sequence == heads[i].Sequence {
				return true
			}
			distance := b.Sequence - at[i].sequence
			first := heads[i].Slots == 0
			heads[i], at[i].sequence = b, b.Sequence
			return first && distance < nearby-1
		})
	}
	return heads, nil
}

// known is an owner with the highest bucket that is known so far.
type known struct {
	owner    message.UserID
	sequence uint32
}

// sequencesNear returns a condition for the sequences that the first query covers.
func sequencesNear(from uint32) bson.D {
	return bson.D{{Key: "$gte", Value: int64(from)}, {Key: "$lt", Value: int64(from) + nearby}}
}

// sequencesAbove returns a condition for sequences above an existing bucket. If the next one is missing, there is no bucket
// above.
func sequencesAbove(there uint32) bson.D {
	var above []int64
	for distance := int64(1); int64(there)+distance <= math.MaxUint32; distance *= 2 {
		above = append(above, int64(there)+distance)
	}
	return in(above)
}

// highest returns the highest wanted bucket of each owner. Owners with the same known bucket share one
// condition. Servers answer that several times as fast as one alternative for each owner.
func (s *Inbox) highest(ctx context.Context, at []known, open []int, wanted func(uint32) bson.D) (map[message.UserID]bucket.Bucket, error) {
	ordered := slices.Clone(open)
	slices.SortFunc(ordered, func(x, y int) int {
		return cmp.Or(cmp.Compare(at[x].sequence, at[y].sequence), cmp.Compare(at[x].owner, at[y].owner))
	})
	chunks := slices.Collect(slices.Chunk(ordered, headsAtOnce))
	find := options.Find().SetProjection(withoutContents).SetBatchSize(headsAtOnce * nearby) // so many in one reply
	read := make([][]bucketRecord, len(chunks))
	err := s.c.db.each(ctx, len(chunks), func(ctx context.Context, i int) (err error) {
		read[i], err = all[bucketRecord](ctx, s.c, "read heads", anyOf(at, chunks[i], wanted), find)
		return err
	})
	if err != nil {
		return nil, err
	}
	found := make(map[message.UserID]bucket.Bucket, len(open))
	for _, records := range read {
		for i := range records {
			b, err := records[i].bucket(bucket.NoFields)
			if err != nil {
				return nil, err
			}
			if other, ok := found[b.Owner]; !ok || other.Sequence < b.Sequence {
				found[b.Owner] = b
			}
		}
	}
	return found, nil
}

// anyOf returns a filter for the wanted buckets of owners. The owners are ordered by their highest known bucket.
func anyOf(at []known, ordered []int, wanted func(uint32) bson.D) bson.D {
	var alternatives bson.A
	for len(ordered) > 0 {
		sequence := at[ordered[0]].sequence
		var owners []message.UserID
		for len(ordered) > 0 && at[ordered[0]].sequence == sequence {
			owners = append(owners, at[ordered[0]].owner)
			ordered = ordered[1:]
		}
		alternatives = append(alternatives, bson.D{
			{Key: fieldOwner, Value: in(owners)},
			{Key: fieldSequence, Value: wanted(sequence)},
		})
	}
	return operator("$or", alternatives)
}

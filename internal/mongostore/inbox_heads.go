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
	// headsAtOnce is how many owners are looked for in one query.
	headsAtOnce = 200
	// nearby is how many buckets of an owner are looked for at first, from the hint up. Mostly there is one or two.
	nearby = 4
)

// Heads implements bucket.Store. Buckets follow each other without a gap: so the highest that was found is the head, unless
// it is the last of those that were looked for. In that case, which is rare, the search goes on above it, at distances
// that double.
//
// An outline is of one moment. That there was no bucket above it is of another, which may have been earlier: then the
// outline may be that of a full bucket which is not the head any more, just as if it had been the moment to read it.
func (s *Inbox) Heads(ctx context.Context, refs []bucket.Ref) ([]bucket.Outline, error) {
	heads := make([]bucket.Outline, len(refs))
	at := slices.Clone(refs) // where the search for each stands
	open := make([]int, len(refs))
	for i := range open {
		open[i] = i
	}
	for wanted := sequencesNear; len(open) > 0; wanted = sequencesAbove {
		found, err := s.highest(ctx, at, open, wanted)
		if err != nil {
			return nil, err
		}
		open = slices.DeleteFunc(open, func(i int) bool {
			o, ok := found[at[i].Owner]
			if !ok || o.Sequence < at[i].Sequence || len(heads[i].IDs) > 0 && o.Sequence == heads[i].Sequence {
				return true
			}
			distance := o.Sequence - at[i].Sequence
			first := len(heads[i].IDs) == 0
			heads[i], at[i].Sequence = o, o.Sequence
			return first && distance < nearby-1
		})
	}
	return heads, nil
}

// sequencesNear are those to look at first.
func sequencesNear(from uint32) bson.D {
	return bson.D{{Key: "$gte", Value: int64(from)}, {Key: "$lt", Value: int64(from) + nearby}}
}

// sequencesAbove are those to look at above a bucket that is there. If the next is not, none is.
func sequencesAbove(there uint32) bson.D {
	var above []int64
	for distance := int64(1); int64(there)+distance <= math.MaxUint32; distance *= 2 {
		above = append(above, int64(there)+distance)
	}
	return in(above)
}

// highest returns the outlines of the highest buckets among those that are wanted, by owner. Those who stand at the same
// bucket are asked for together, which servers answer several times as fast as so many alternatives.
func (s *Inbox) highest(ctx context.Context, at []bucket.Ref, open []int, wanted func(uint32) bson.D) (map[message.UserID]bucket.Outline, error) {
	ordered := slices.Clone(open)
	slices.SortFunc(ordered, func(x, y int) int {
		return cmp.Or(cmp.Compare(at[x].Sequence, at[y].Sequence), cmp.Compare(at[x].Owner, at[y].Owner))
	})
	chunks := slices.Collect(slices.Chunk(ordered, headsAtOnce))
	find := options.Find().SetProjection(outlined).SetBatchSize(headsAtOnce * nearby) // so many in one reply
	read := make([][]bucketRecord, len(chunks))
	err := s.c.db.each(ctx, len(chunks), func(ctx context.Context, i int) (err error) {
		read[i], err = all[bucketRecord](ctx, s.c, "read heads", anyOf(at, chunks[i], wanted), find)
		return err
	})
	if err != nil {
		return nil, err
	}
	found := make(map[message.UserID]bucket.Outline, len(open))
	for _, records := range read {
		for i := range records {
			o, err := records[i].outline()
			if err != nil {
				return nil, err
			}
			if known, ok := found[records[i].Owner]; !ok || known.Sequence < o.Sequence {
				found[records[i].Owner] = o
			}
		}
	}
	return found, nil
}

// outlined is what an outline takes of a bucket.
var outlined = fields(fieldOwner, fieldSequence, fieldSlots, fieldFloor, fieldLast, path(fieldEntries, fieldEntryID))

// anyOf returns a filter for the wanted buckets of owners, who are ordered by where they stand.
func anyOf(at []bucket.Ref, ordered []int, wanted func(uint32) bson.D) bson.D {
	var alternatives bson.A
	for len(ordered) > 0 {
		sequence := at[ordered[0]].Sequence
		var owners []message.UserID
		for len(ordered) > 0 && at[ordered[0]].Sequence == sequence {
			owners = append(owners, at[ordered[0]].Owner)
			ordered = ordered[1:]
		}
		alternatives = append(alternatives, bson.D{
			{Key: fieldOwner, Value: in(owners)},
			{Key: fieldSequence, Value: wanted(sequence)},
		})
	}
	return operator("$or", alternatives)
}

package mongostore

import (
	"context"
	"fmt"
	"math"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// Delete implements bucket.Store. An entry never moves. So Delete looks up its slot first and then updates that slot if the
// entry is still there.
func (s *Inbox) Delete(ctx context.Context, owner message.UserID, sequence uint32, id message.ID) error {
	slot, err := s.slotOf(ctx, owner, sequence, id)
	if err == nil {
		at := bucket.Tombstone{Sequence: sequence, Slot: slot, ID: id}
		_, err = s.putTombstone(ctx, owner, at, entryRecord{ID: new(uuid(id)), Deleted: true}) // a slot that is a tombstone already stays one
	}
	if err != nil {
		return fmt.Errorf("delete %s from bucket %d of %s: %w", id, sequence, owner, err)
	}
	return nil
}

// slotOf returns the slot of the entry or tombstone with an id.
func (s *Inbox) slotOf(ctx context.Context, owner message.UserID, sequence uint32, id message.ID) (int, error) {
	filter := append(bucketOf(owner, sequence), bson.E{Key: path(fieldEntries, fieldEntryID), Value: uuid(id)})
	records, err := all[bucketRecord](ctx, s.c, "find an entry", filter, options.Find().SetProjection(withoutContents))
	if err != nil {
		return 0, err
	}
	if len(records) == 0 {
		return 0, bucket.ErrNotFound
	}
	b, err := records[0].bucket(bucket.NoFields)
	return slices.IndexFunc(b.Entries, func(e bucket.Entry) bool { return e.ID == id }), err
}

// Blank implements bucket.Store.
func (s *Inbox) Blank(ctx context.Context, owner message.UserID, sequence uint32, slot int, id message.ID) error {
	done, err := false, error(nil)
	at := bucket.Tombstone{Sequence: sequence, Slot: slot, ID: id}
	switch {
	case slot < 0 || slot >= int(s.size):
	case id.IsZero():
		done, err = s.fill(ctx, owner, at)
	default:
		done, err = s.blank(ctx, owner, at)
	}
	if err == nil && !done {
		err = bucket.ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("blank %s in slot %d of bucket %d of %s: %w", id, slot, sequence, owner, err)
	}
	return nil
}

// blank blanks an entry, or else a tombstone, which is already counted. A tombstone never becomes an entry again. So one of the
// two updates matches, even if another caller deletes the entry meanwhile.
func (s *Inbox) blank(ctx context.Context, owner message.UserID, at bucket.Tombstone) (done bool, err error) {
	if done, err = s.putTombstone(ctx, owner, at, blankEntry); done || err != nil {
		return done, err
	}
	there := bson.D{{Key: path(fieldEntries, at.Slot, fieldEntryID), Value: uuid(at.ID)}}
	return s.update(ctx, "blank a tombstone", owner, at, there, operator("$set", operator(path(fieldEntries, at.Slot), blankEntry)))
}

// putTombstone replaces an entry by its remains and counts the tombstone, unless the slot is a tombstone already.
func (s *Inbox) putTombstone(ctx context.Context, owner message.UserID, at bucket.Tombstone, remains entryRecord) (done bool, err error) {
	id := uuid(at.ID)
	there := bson.D{
		{Key: path(fieldEntries, at.Slot, fieldEntryID), Value: id},
		{Key: path(fieldEntries, at.Slot, fieldDeleted), Value: operator("$ne", true)},
	}
	return s.update(ctx, "write a tombstone", owner, at, there, tombstone(at.Slot, &id, remains))
}

// fill puts a tombstone into a slot that counts as taken although its entry is lost. A slot counts as taken if the bucket says
// so, or if there is a bucket above.
func (s *Inbox) fill(ctx context.Context, owner message.UserID, at bucket.Tombstone) (done bool, err error) {
	lost := bson.D{
		{Key: path(fieldEntries, at.Slot, fieldEntryID), Value: operator("$exists", false)},
		{Key: path(fieldEntries, at.Slot, fieldDeleted), Value: operator("$ne", true)},
	}
	taken := append(slices.Clip(lost), bson.E{Key: fieldSlots, Value: operator("$gt", at.Slot)})
	done, err = s.update(ctx, "fill a slot", owner, at, taken, tombstone(at.Slot, nil, blankEntry))
	if done || err != nil || at.Sequence == math.MaxUint32 {
		return done, err
	}
	there, err := all[bucketRecord](ctx, s.c, "find the next bucket", bson.D{
		{Key: fieldOwner, Value: owner}, {Key: fieldSequence, Value: in([]int64{int64(at.Sequence), int64(at.Sequence) + 1})},
	}, options.Find().SetProjection(whole(bucket.NoEntries)))
	if err != nil || len(there) < 2 {
		return false, err
	}
	missing := append(slices.Clip(lost), bson.E{Key: fieldSlots, Value: operator("$lte", at.Slot)})
	update := append(tombstone(at.Slot, nil, blankEntry), bson.E{Key: "$max", Value: operator(fieldSlots, at.Slot+1)})
	return s.update(ctx, "fill a slot", owner, at, missing, update)
}

// blankEntry is the stored form of a blanked entry.
var blankEntry = entryRecord{Deleted: true}

// tombstone returns the update that puts a tombstone into a slot and counts it.
func tombstone(slot int, id *bson.Binary, remains entryRecord) bson.D {
	record := tombstoneRecord{Slot: int32(slot), ID: id} //nolint:gosec // a slot is below the size
	return bson.D{
		{Key: "$set", Value: operator(path(fieldEntries, slot), remains)},
		{Key: "$inc", Value: operator(fieldDeleted, 1)},
		{Key: "$push", Value: operator(fieldTombstones, record)},
	}
}

// bucketOf returns a filter for one bucket.
func bucketOf(owner message.UserID, sequence uint32) bson.D {
	return bson.D{{Key: fieldOwner, Value: owner}, {Key: fieldSequence, Value: int64(sequence)}}
}

// update puts a tombstone into a bucket that meets a condition, and reports whether it did. If a reply was lost, the repetition
// finds the blank tombstone that the first attempt wrote.
func (s *Inbox) update(
	ctx context.Context, doing string, owner message.UserID, at bucket.Tombstone, condition, update bson.D,
) (done bool, err error) {
	filter := slices.Concat(bucketOf(owner, at.Sequence), bson.D{ofThisVersion, noStub}, condition)
	repeated := false
	err = s.c.call(ctx, doing, func(ctx context.Context) error {
		result, err := s.c.UpdateOne(ctx, filter, update)
		done = err == nil && result.MatchedCount == 1
		if err == nil && !done && repeated {
			done, err = s.c.has(ctx, append(bucketOf(owner, at.Sequence), blanked(at)...))
		}
		repeated = true
		return err
	})
	return done, err
}

// blanked is a condition on a bucket: it has a blank tombstone.
func blanked(at bucket.Tombstone) bson.D {
	counted := bson.D{{Key: fieldSlot, Value: at.Slot}, {Key: fieldEntryID, Value: operator("$exists", false)}}
	if !at.ID.IsZero() {
		counted[1].Value = uuid(at.ID)
	}
	return bson.D{
		{Key: path(fieldEntries, at.Slot, fieldDeleted), Value: true},
		{Key: path(fieldEntries, at.Slot, fieldEntryID), Value: operator("$exists", false)},
		{Key: fieldTombstones, Value: operator("$elemMatch", counted)},
	}
}

// withDeletions returns a filter for buckets that have tombstones, and for stubs that had some. The owner is an id, or a condition on ids. It
// matches the condition of the partial index.
func withDeletions(owner any) bson.D {
	return bson.D{{Key: fieldOwner, Value: owner}, {Key: fieldDeleted, Value: exists}}
}

// deletionFields returns a projection onto the number of tombstones. From the given bucket on, it also returns the tombstones.
func deletionFields(from uint32) bson.D {
	recent := operator("$gte", bson.A{"$" + fieldSequence, int64(from)})
	return append(fields(fieldSequence, fieldDeleted),
		bson.E{Key: fieldTombstones, Value: operator("$cond", bson.A{recent, "$" + fieldTombstones, "$$REMOVE"})})
}

// addTo adds the tombstones of a bucket to d.
func (r *bucketRecord) addTo(d *bucket.Deletions, size bucket.Size) error {
	if d.Ever += max(r.Deleted, -r.Deleted); r.Deleted > 0 {
		d.Total += r.Deleted
	}
	sequence := uint32(r.Sequence) //nolint:gosec // it was one
	for _, t := range r.Tombstones {
		id, err := optionalID(t.ID)
		if err != nil {
			return err
		}
		d.Recent = append(d.Recent, bucket.Tombstone{
			Sequence: sequence, Slot: int(t.Slot), Position: size.Position(sequence, int(t.Slot)), ID: id,
		})
	}
	return nil
}

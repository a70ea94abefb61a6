package mongostore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// Push implements bucket.Store by unordered bulk writes with one upsert for each owner. An upsert whose filter does not match
// tries to insert and fails on the unique key. A push that must not create a bucket fails on an invalid id instead. In both
// cases only that push is refused.
//
// A push that fails for a passing reason is sent again. If the first attempt was applied after all, the second is refused,
// because the bucket already holds its entries. The appender then finds them there.
func (s *Inbox) Push(ctx context.Context, pushes []bucket.Push) ([]bucket.Outcome, error) {
	outcomes := make([]bucket.Outcome, len(pushes))
	work, err := s.encode(pushes, outcomes)
	if err != nil {
		return nil, fmt.Errorf("mongostore: push: %w", err)
	}
	if err := s.chooseSlots(ctx, work); err != nil {
		return nil, err
	}
	chunks := s.c.db.split(work)
	err = s.c.db.each(ctx, len(chunks), func(ctx context.Context, i int) error { return s.pushChunk(ctx, chunks[i], outcomes) })
	if err != nil {
		return nil, err
	}
	s.c.db.metrics.Pushed(pushes, outcomes)
	return outcomes, nil
}

// Persist implements bucket.Store. A push is durable when it returns. A push of another process is durable once it can be read,
// because reads are linearizable.
func (*Inbox) Persist(context.Context) error { return nil }

// encoded is a push with encoded entries.
type encoded struct {
	index   int // index of the push in the call
	push    *bucket.Push
	entries []bson.Raw
	// For a tombstone: the slot that it takes if the bucket has only so many slots when the push is applied.
	slot, slots int
}

func (p encoded) tombstone() bool { return p.push.Entries[0].Deleted }

// chooseSlots reads which slots tombstones will take, because the list of tombstones names their slots. If another push takes such a
// slot first, the server refuses the push of the tombstone.
func (s *Inbox) chooseSlots(ctx context.Context, work []encoded) error {
	for i := range work {
		p := &work[i]
		if !p.tombstone() {
			continue
		}
		records, err := all[bucketRecord](ctx, s.c, "find a free slot", bucketOf(p.push.Owner, p.push.Sequence), options.Find().SetProjection(withoutContents))
		if err != nil {
			return err
		}
		if len(records) == 1 {
			p.slot, p.slots = len(records[0].Entries), int(records[0].Slots)
		}
	}
	return nil
}

// encode encodes the entries and sorts the pushes by owner. Because all callers use the same order, two callers that push to the
// same owners rarely deadlock. A push that cannot apply gets its outcome here and is left out.
func (s *Inbox) encode(pushes []bucket.Push, outcomes []bucket.Outcome) ([]encoded, error) {
	encoder := bucket.NewEncoder(s.size, 0, encodeEntry)
	work := make([]encoded, 0, len(pushes))
	for i := range pushes {
		entries, refused, try, err := encoder.Prepare(&pushes[i], make([]bson.Raw, 0, len(pushes[i].Entries)))
		if err != nil {
			return nil, err
		}
		if !try {
			outcomes[i] = refused
			continue
		}
		work = append(work, encoded{index: i, push: &pushes[i], entries: entries})
	}
	slices.SortFunc(work, func(x, y encoded) int { return strings.Compare(string(x.push.Owner), string(y.push.Owner)) })
	return work, nil
}

// pushBytes is an upper bound for the size of a push beside its entries and their ids.
const (
	pushBytes  = 512 + message.MaxUserIDBytes
	entryBytes = 64
	facetBytes = 16
)

func (p encoded) bytes() int {
	n := pushBytes + facetBytes*len(p.push.Facets)
	for _, e := range p.entries {
		n += len(e) + entryBytes
	}
	return n
}

// split divides pushes into chunks. Each chunk is sent in one command.
func (db *DB) split(work []encoded) (chunks [][]encoded) {
	for len(work) > 0 {
		n, bytes := 1, work[0].bytes()
		for n < len(work) && n < db.opts.BulkOperations && bytes+work[n].bytes() <= db.opts.BulkBytes {
			bytes += work[n].bytes()
			n++
		}
		chunks, work = append(chunks, work[:n]), work[n:]
	}
	return chunks
}

// pushChunk sends pushes in one command. It sends those that failed for a passing reason again.
func (s *Inbox) pushChunk(ctx context.Context, chunk []encoded, outcomes []bucket.Outcome) error {
	return s.c.call(ctx, "push", func(ctx context.Context) error {
		models := make([]mongo.WriteModel, len(chunk))
		for i, p := range chunk {
			models[i] = p.model(s.size)
		}
		result, err := s.c.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false))
		exception, partly := errors.AsType[mongo.BulkWriteException](err)
		switch {
		case err != nil && !partly:
			return err
		case exception.WriteConcernError != nil: // applied, but a failover may undo it
			return mongo.WriteException{WriteConcernError: exception.WriteConcernError}
		case int(result.MatchedCount+result.UpsertedCount)+len(exception.WriteErrors) != len(chunk):
			return fmt.Errorf("the server says of %d pushes that %d were applied and %d were not",
				len(chunk), result.MatchedCount+result.UpsertedCount, len(exception.WriteErrors))
		}
		chunk, err = outcomesOf(chunk, exception.WriteErrors, outcomes)
		return err
	})
}

// outcomesOf records the outcome of each push that was applied or refused. It returns the pushes that failed for another reason,
// and the error.
func outcomesOf(chunk []encoded, errs []mongo.BulkWriteError, outcomes []bucket.Outcome) (failed []encoded, err error) {
	errOf := make([]error, len(chunk))
	for _, e := range errs {
		errOf[e.Index] = mongo.WriteException{WriteErrors: mongo.WriteErrors{e.WriteError}}
	}
	for i, p := range chunk {
		switch {
		case errOf[i] == nil:
			outcomes[p.index].Applied = true
		case duplicate(errOf[i]), p.mustExist() && notInserted(errOf[i]):
		default:
			failed = append(failed, p)
			if err == nil || permanent(errOf[i]) {
				err = errOf[i]
			}
		}
	}
	return failed, err
}

// mustExist reports whether the push is for a bucket that it must not create.
func (p encoded) mustExist() bool { return p.push.Sequence > 0 && !p.push.Create }

// notAnID is a value that every server refuses as an _id. An update without upsert would not create a bucket either. But a bulk
// reply does not say which plain updates matched nothing, while it names every upsert that failed.
var notAnID = bson.A{}

// notInserted reports whether an upsert failed because its filter matched nothing and it tried to insert notAnID.
func notInserted(err error) bool {
	if hasCode(err, codeInvalidIDField) {
		return true
	}
	// DocumentDB has one code for every invalid value.
	return hasCode(err, codeBadValue) && strings.Contains(err.Error(), "'_id'")
}

// model returns the push in the form in which it is sent.
func (p encoded) model(size bucket.Size) *mongo.UpdateOneModel {
	k := len(p.entries)
	ids := make(bson.A, k)
	for i := range ids {
		ids[i] = uuid(p.push.Entries[i].ID)
	}
	room := int(size) - k // the greatest number of slots that leaves room
	if p.tombstone() {
		room = min(room, p.slots)
	}
	least, last := p.push.Entries[0].ID, p.push.Entries[k-1].ID
	filter := append(bucketOf(p.push.Owner, p.push.Sequence), ofThisVersion,
		bson.E{Key: fieldSlots, Value: operator("$lte", room)},
		bson.E{Key: path(fieldEntries, fieldEntryID), Value: operator("$nin", ids)})
	switch {
	case p.push.Create:
		filter = append(filter, bson.E{Key: fieldFloor, Value: uuid(p.push.Floor)}) // the upsert inserts it
		if last.Less(p.push.Floor) {
			last = p.push.Floor
		}
	case p.push.Guard:
		filter = append(filter, bson.E{Key: fieldFloor, Value: operator("$not", operator("$gte", uuid(least)))})
	}
	pushed, counted := operator(fieldEntries, operator("$each", p.entries)), operator(fieldSlots, k)
	if p.tombstone() {
		pushed = append(pushed, bson.E{Key: fieldTombstones, Value: tombstoneRecord{Slot: int32(p.slot), ID: new(uuid(least))}}) //nolint:gosec // a slot is below the size
		counted = append(counted, bson.E{Key: fieldDeleted, Value: 1})
	}
	update := bson.D{
		{Key: "$push", Value: pushed},
		{Key: "$inc", Value: counted},
		{Key: "$max", Value: operator(fieldLast, uuid(last))},
	}
	if p.push.Decl > 0 { // the upsert inserts what the filter says
		filter = append(filter, bson.E{Key: fieldDecl, Value: int32(p.push.Decl)}) //nolint:gosec // it counts declarations
	} else {
		filter = append(filter, bson.E{Key: fieldDecl, Value: operator("$exists", false)})
	}
	if p.mustExist() {
		update = append(update, bson.E{Key: "$setOnInsert", Value: operator(fieldID, notAnID)})
	}
	if p.push.Decl > 0 && len(p.push.Facets) > 0 {
		update = append(update, bson.E{Key: "$addToSet", Value: operator(fieldFacets, operator("$each", p.push.Facets))})
	}
	if p.mayBeLate() {
		update = append(update, bson.E{Key: "$min", Value: operator(fieldLate, uuid(least))})
	}
	return mongo.NewUpdateOneModel().SetFilter(filter).SetUpdate(update).SetUpsert(true)
}

// mayBeLate reports whether an entry may be at or below the floor of the bucket.
func (p encoded) mayBeLate() bool {
	switch {
	case p.push.Sequence == 0, p.push.Guard:
		return false
	case p.push.Create:
		return !p.push.Floor.Less(p.push.Entries[0].ID)
	default:
		return true
	}
}

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

// Push implements bucket.Store by unordered bulk writes of upserts, one for each owner. Where the filter of one does not
// match, it goes on to insert, and runs into the unique key, or where it must not create a bucket, into what makes that
// impossible: it is refused, and alone.
//
// What fails for a reason that may pass is pushed again. If the first attempt has been applied after all, the second is
// refused, since the bucket holds its entries then, and the appender finds them there.
func (s *Inbox) Push(ctx context.Context, pushes []bucket.Push) ([]bucket.Outcome, error) {
	outcomes := make([]bucket.Outcome, len(pushes))
	work, err := place(pushes, outcomes)
	if err != nil {
		return nil, fmt.Errorf("mongostore: push: %w", err)
	}
	chunks := s.c.db.split(work)
	err = s.c.db.each(ctx, len(chunks), func(ctx context.Context, i int) error { return s.pushChunk(ctx, chunks[i], outcomes) })
	if err != nil {
		return nil, err
	}
	return outcomes, nil
}

// Persist implements bucket.Store: what a push has applied is durable when it returns. So is what somebody else's has, once
// it is read, for reads are linearizable.
func (*Inbox) Persist(context.Context) error { return nil }

// placed is a push with its entries as they are stored.
type placed struct {
	index   int // among the pushes
	push    *bucket.Push
	entries []bson.Raw
}

// place encodes the entries and sorts the pushes by owner, so two callers that push to the same owners rarely wait for each
// other in a circle. A push that cannot apply gets its outcome here and is left out.
func place(pushes []bucket.Push, outcomes []bucket.Outcome) ([]placed, error) {
	encoder := bucket.NewEncoder(0, encodeEntry)
	work := make([]placed, 0, len(pushes))
	for i := range pushes {
		entries, refused, try, err := encoder.Prepare(&pushes[i], make([]bson.Raw, 0, len(pushes[i].Entries)))
		if err != nil {
			return nil, err
		}
		if !try {
			outcomes[i] = refused
			continue
		}
		work = append(work, placed{index: i, push: &pushes[i], entries: entries})
	}
	slices.SortFunc(work, func(x, y placed) int { return strings.Compare(string(x.push.Owner), string(y.push.Owner)) })
	return work, nil
}

// pushBytes is more than what a push has besides its entries and their ids.
const (
	pushBytes  = 512 + message.MaxUserIDBytes
	entryBytes = 64
)

func (p placed) bytes() int {
	n := pushBytes
	for _, e := range p.entries {
		n += len(e) + entryBytes
	}
	return n
}

// split cuts pushes into what is sent together.
func (db *DB) split(work []placed) (chunks [][]placed) {
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

// pushChunk carries out pushes that are sent together, and those again whose failure may pass.
func (s *Inbox) pushChunk(ctx context.Context, chunk []placed, outcomes []bucket.Outcome) error {
	return s.c.call(ctx, "push", func(ctx context.Context) error {
		models := make([]mongo.WriteModel, len(chunk))
		for i, p := range chunk {
			models[i] = p.model()
		}
		result, err := s.c.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false))
		exception, partly := errors.AsType[mongo.BulkWriteException](err)
		switch {
		case err != nil && !partly:
			return err
		case exception.WriteConcernError != nil: // applied, but it is not known whether for good
			return mongo.WriteException{WriteConcernError: exception.WriteConcernError}
		case int(result.MatchedCount+result.UpsertedCount)+len(exception.WriteErrors) != len(chunk):
			return fmt.Errorf("the server says of %d pushes that %d were applied and %d were not",
				len(chunk), result.MatchedCount+result.UpsertedCount, len(exception.WriteErrors))
		}
		chunk, err = settle(chunk, exception.WriteErrors, outcomes)
		return err
	})
}

// settle notes which pushes were applied. It returns those that failed, without having been refused, and why.
func settle(chunk []placed, errs []mongo.BulkWriteError, outcomes []bucket.Outcome) (failed []placed, err error) {
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

// mustExist tells whether the push is onto a bucket that it must not create.
func (p placed) mustExist() bool { return p.push.Sequence > 0 && !p.push.Create }

// notAnID is what no server takes for an _id. An update that is not an upsert would not create a bucket either: but a bulk
// write does not tell of which of those the filter has matched nothing, and tells of every upsert that fails.
var notAnID = bson.A{}

// notInserted tells whether an upsert failed since its filter matched nothing, and notAnID was to be inserted.
func notInserted(err error) bool {
	if hasCode(err, codeInvalidIDField) {
		return true
	}
	// DocumentDB has one code for every value that it refuses.
	return hasCode(err, codeBadValue) && strings.Contains(err.Error(), "'_id'")
}

// model returns the push as it is sent.
func (p placed) model() *mongo.UpdateOneModel {
	k := len(p.entries)
	ids := make(bson.A, k)
	for i := range ids {
		ids[i] = uuid(p.push.Entries[i].ID)
	}
	least, last := p.push.Entries[0].ID, p.push.Entries[k-1].ID
	filter := append(bucketOf(p.push.Owner, p.push.Sequence),
		ofThisVersion,
		bson.E{Key: fieldSlots, Value: operator("$lte", bucket.Capacity-k)},
		bson.E{Key: path(fieldEntries, fieldEntryID), Value: operator("$nin", ids)})
	if p.push.Guard {
		filter = append(filter, bson.E{Key: fieldFloor, Value: operator("$not", operator("$gte", uuid(least)))})
	}
	var created bson.D // besides what the filter says of it
	switch {
	case p.mustExist():
		created = operator(fieldID, notAnID)
	case p.push.Create && !p.push.Floor.IsZero():
		created = operator(fieldFloor, uuid(p.push.Floor))
		if last.Less(p.push.Floor) {
			last = p.push.Floor
		}
	}
	update := bson.D{
		{Key: "$push", Value: operator(fieldEntries, operator("$each", p.entries))},
		{Key: "$inc", Value: operator(fieldSlots, k)},
		{Key: "$max", Value: operator(fieldLast, uuid(last))},
	}
	if created != nil {
		update = append(update, bson.E{Key: "$setOnInsert", Value: created})
	}
	if p.mayBeLate() {
		update = append(update, bson.E{Key: "$min", Value: operator(fieldLate, uuid(least))})
	}
	return mongo.NewUpdateOneModel().SetFilter(filter).SetUpdate(update).SetUpsert(true)
}

// mayBeLate tells whether an entry may be at or below the floor of the bucket.
func (p placed) mayBeLate() bool {
	switch {
	case p.push.Sequence == 0, p.push.Guard:
		return false
	case p.push.Create:
		return !p.push.Floor.Less(p.push.Entries[0].ID)
	default:
		return true
	}
}

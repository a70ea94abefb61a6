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
)

// write is an update of one document.
type write struct {
	// key is the sort key of the writes of one call. A server locks the documents it writes, and some servers keep the locks
	// until the whole bulk is written. Two bulks that lock in different orders deadlock until the server aborts one of them.
	key    string
	filter bson.D
	update any // bson.D, or mongo.Pipeline
	upsert bool
}

// written is the result of one write. If the write was repeated, an earlier attempt may already have made the change. The
// result then looks as if another caller had made it.
type written struct {
	inserted  bool // it made the document
	duplicate bool // it was refused by a unique key
}

// bulk carries out idempotent writes, each on its own and in no particular order. It sends as many at a time as the options
// allow. It returns the results in the order of writes.
func (c collection) bulk(ctx context.Context, doing string, writes []write) ([]written, error) {
	order := make([]int, len(writes))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return strings.Compare(writes[i].key, writes[j].key) })
	models, err := encodeWrites(writes, order)
	if err != nil {
		return nil, fmt.Errorf("mongostore: %s in %s: %w", doing, c.Name(), err)
	}
	sorted := make([]written, len(writes))
	for first := 0; first < len(models); {
		n := fitting(models[first:], c.db.opts.BulkOperations, c.db.opts.BulkBytes)
		if err := c.bulkSome(ctx, doing, models[first:first+n], sorted[first:first+n]); err != nil {
			return nil, err
		}
		first += n
	}
	results := make([]written, len(writes))
	for place, i := range order {
		results[i] = sorted[place]
	}
	return results, nil
}

// model is a write in the form in which it is sent.
type model struct {
	update *mongo.UpdateOneModel
	bytes  int
}

// modelBytes is the overhead of a write beside its filter and update: field names, flags and an array index.
const modelBytes = 64

// encodeWrites encodes writes for sending, in the given order of their indexes.
func encodeWrites(writes []write, order []int) ([]model, error) {
	models := make([]model, len(writes))
	for place, i := range order {
		w := writes[i]
		filter, err := bson.Marshal(w.filter)
		if err != nil {
			return nil, err
		}
		kind, update, err := bson.MarshalValue(w.update)
		if err != nil {
			return nil, err
		}
		models[place] = model{bytes: len(filter) + len(update) + modelBytes, update: mongo.NewUpdateOneModel().SetFilter(bson.Raw(filter))}
		if w.upsert {
			models[place].update.SetUpsert(true)
		}
		if kind == bson.TypeArray {
			models[place].update.SetUpdate(w.update)
		} else {
			models[place].update.SetUpdate(bson.Raw(update))
		}
	}
	return models, nil
}

// fitting returns how many of the models fit into one command. It is at least one.
func fitting(models []model, operations, bytes int) int {
	n, size := 0, 0
	for n < len(models) && n < operations {
		if size += models[n].bytes; n > 0 && size > bytes {
			break
		}
		n++
	}
	return n
}

// bulkSome sends models in one command. It sends the writes that failed for a passing reason again.
func (c collection) bulkSome(ctx context.Context, doing string, models []model, results []written) error {
	open := make([]int, len(models)) // indexes of the writes that are not settled
	for i := range open {
		open[i] = i
	}
	return c.call(ctx, doing, func(ctx context.Context) error {
		batch := make([]mongo.WriteModel, len(open))
		for k, i := range open {
			batch[k] = models[i].update
		}
		result, err := c.BulkWrite(ctx, batch, options.BulkWrite().SetOrdered(false))
		exception, partly := errors.AsType[mongo.BulkWriteException](err)
		switch {
		case exception.WriteConcernError != nil:
			return fmt.Errorf("not acknowledged by a majority: %s", exception.WriteConcernError.Message)
		case err != nil && (!partly || result == nil):
			return err
		}
		for k := range result.UpsertedIDs {
			results[open[k]].inserted = true
		}
		failed, err := refusals(exception.WriteErrors, open, results)
		open = failed
		return err
	})
}

// refusals sorts the writes that were not carried out. A write that a unique key refused is settled. refusals returns the
// indexes of the other writes, with an error.
func refusals(errs []mongo.BulkWriteError, open []int, results []written) (failed []int, err error) {
	for _, e := range errs {
		single := mongo.WriteException{WriteErrors: mongo.WriteErrors{e.WriteError}}
		if duplicate(single) {
			results[open[e.Index]].duplicate = true
			continue
		}
		if failed = append(failed, open[e.Index]); err == nil || permanent(single) {
			err = single
		}
	}
	slices.Sort(failed)
	return failed, err
}

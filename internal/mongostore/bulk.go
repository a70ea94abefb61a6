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
	// key is what the writes of one call are sorted by. Servers lock what they write, some of them until all of a bulk is
	// written: two that lock in different orders wait for each other until one is ended.
	key    string
	filter bson.D
	update any // bson.D, or mongo.Pipeline
	upsert bool
}

// written is what became of a write. If it had to be repeated, an earlier attempt may have done what the last one found
// done: then it looks as if somebody else had.
type written struct {
	inserted  bool // it made the document
	duplicate bool // it was refused by a unique key
}

// bulk carries out writes that may be repeated, each on its own, in no particular order, as many at a time as the options
// allow, and returns in their order what became of them.
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

// model is a write as it is sent.
type model struct {
	update *mongo.UpdateOneModel
	bytes  int
}

// modelBytes is what a server needs round a filter and an update: names of fields, flags and an array index.
const modelBytes = 64

// encodeWrites returns writes, in an order of their indexes, as they are sent.
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

// fitting returns how many of the models, at least one, can be sent together.
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

// bulkSome carries out writes that can be sent together, and those again whose failure may pass.
func (c collection) bulkSome(ctx context.Context, doing string, models []model, results []written) error {
	open := make([]int, len(models)) // indexes of those that are not settled
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

// refusals sorts the writes that were not carried out: those that a unique key refused are settled, the others are
// returned with an error.
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

package pebblestore

import (
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/pkg/message"
)

// List implements progress.Store.
func (s *Progress) List(ctx context.Context, after, upTo message.ID, limit int) (found []progress.Found, err error) {
	call, err := s.db.begin(ctx, "progress.list")
	if err != nil {
		return nil, err
	}
	defer call.end(ctx, &err)
	it, err := s.db.iterate([]byte{byte(spacePlans)})
	if err != nil {
		return nil, err
	}
	defer closeIter(it, &err)
	for ok := it.SeekGE(idKey(spacePlans, after.Next())); ok; ok = it.Next() {
		id := planOf(it.Key())
		last := len(found) - 1
		if last < 0 || found[last].Fanout.ID != id {
			if upTo.Less(id) || len(found) == limit {
				break
			}
			found = append(found, progress.Found{Fanout: progress.Fanout{ID: id, Scans: make(map[int]progress.Scan)}})
			last++
		}
		if err := addTo(&found[last], it); err != nil {
			return nil, fmt.Errorf("fan-out of %s: %w", id, err)
		}
	}
	return found, it.Error()
}

// addTo adds the record at an iterator to the fan-out that it belongs to. Damage is the fan-out's, and not an error.
func addTo(found *progress.Found, it *pebble.Iterator) error {
	value, err := it.ValueAndErr()
	if err != nil {
		return fmt.Errorf("read from the store: %w", err)
	}
	f := &found.Fanout
	if key := it.Key(); len(key) == planLen {
		f.Lane, f.Moved, err = parsePlan(value)
	} else {
		f.Scans[partitionOf(key)], err = parseScan(value)
	}
	if errors.Is(err, ErrCorrupt) {
		found.Fanout, found.Err = progress.Fanout{ID: f.ID, Scans: make(map[int]progress.Scan)}, err
		return nil
	}
	return err
}

// Remove implements progress.Store.
func (s *Progress) Remove(ctx context.Context, ids []message.ID) (err error) {
	call, err := s.db.begin(ctx, "progress.remove")
	if err != nil {
		return err
	}
	defer call.end(ctx, &err)
	locks := s.lock(len(ids), func(i int) message.ID { return ids[i] })
	defer locks.unlock()
	batch := s.db.engine.NewBatch()
	for _, id := range ids {
		if err := s.remove(batch, id); err != nil {
			return fmt.Errorf("remove the fan-out of %s: %w", id, err)
		}
	}
	return s.db.apply(batch)
}

// remove adds the removal of a plan to a batch. It removes key by key, because a removed range slows down later reads beside it.
func (s *Progress) remove(batch *pebble.Batch, id message.ID) (err error) {
	it, err := s.db.iterate(idKey(spacePlans, id))
	if err != nil {
		return err
	}
	defer closeIter(it, &err)
	for ok := it.First(); ok; ok = it.Next() {
		if err := batch.Delete(it.Key(), nil); err != nil {
			return err
		}
	}
	return it.Error()
}

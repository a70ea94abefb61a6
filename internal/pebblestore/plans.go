package pebblestore

import (
	"context"
	"errors"
	"fmt"
	"math"

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
	for key, value := range s.db.records([]byte{byte(spacePlans)}, idKey(spacePlans, after.Next()), math.MaxInt, &err) {
		id := planOf(key)
		last := len(found) - 1
		if last < 0 || found[last].Fanout.ID != id {
			if upTo.Less(id) || len(found) == limit {
				break
			}
			found = append(found, progress.Found{Fanout: progress.Fanout{ID: id, Scans: make(map[int]progress.Scan)}})
			last++
		}
		if err := addTo(&found[last], key, value); err != nil {
			return nil, fmt.Errorf("fan-out of %s: %w", id, err)
		}
	}
	return found, err
}

// addTo adds a record to the fan-out that it belongs to. Damage is the fan-out's, and not an error.
func addTo(found *progress.Found, key, value []byte) (err error) {
	f := &found.Fanout
	if len(key) == planLen {
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
	c, err := beginChange(ctx, s.db, "progress.remove", s.locks, ids, idLock)
	if err != nil {
		return err
	}
	defer c.end(ctx, &err)
	for _, id := range ids {
		if err := s.remove(c.batch, id); err != nil {
			return fmt.Errorf("remove the fan-out of %s: %w", id, err)
		}
	}
	return s.db.apply(c.batch)
}

// remove adds the removal of a plan to a batch. It removes key by key, because a removed range slows down later reads beside it.
func (s *Progress) remove(batch *pebble.Batch, id message.ID) (err error) {
	plan := idKey(spacePlans, id)
	for key := range s.db.records(plan, plan, math.MaxInt, &err) {
		if err := batch.Delete(key, nil); err != nil {
			return err
		}
	}
	return err
}

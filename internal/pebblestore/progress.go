package pebblestore

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/pkg/message"
)

// Progress is the store of fan-outs. A fan-out has a record with the time of its last change, and a record for each scan.
type Progress struct {
	db    *DB
	locks stripes
}

var _ progress.Store = (*Progress)(nil)

// scanRecord is a scan in CBOR.
type scanRecord struct {
	Joined    bool           `cbor:"1,keyasint,omitempty"`
	Start     message.UserID `cbor:"2,keyasint,omitempty"`
	At        message.UserID `cbor:"3,keyasint,omitempty"`
	Delivered int64          `cbor:"4,keyasint,omitempty"`
	Skipped   int64          `cbor:"5,keyasint,omitempty"`
	Done      bool           `cbor:"6,keyasint,omitempty"`
	Dead      bool           `cbor:"7,keyasint,omitempty"`
	GivenUp   bool           `cbor:"8,keyasint,omitempty"`
	Arc       *arcRecord     `cbor:"9,keyasint,omitempty"`
}

// arcRecord is an arc in CBOR.
type arcRecord struct {
	From      message.UserID `cbor:"1,keyasint,omitempty"`
	To        message.UserID `cbor:"2,keyasint,omitempty"`
	Delivered int64          `cbor:"3,keyasint,omitempty"`
	Skipped   int64          `cbor:"4,keyasint,omitempty"`
}

func encodeScan(s progress.Scan) []byte {
	r := scanRecord{
		Joined: s.Joined, Start: s.Start, At: s.At, Delivered: s.Delivered, Skipped: s.Skipped, Done: s.Done, Dead: s.Dead, GivenUp: s.GivenUp,
	}
	if a := s.Arc; a.Noted {
		r.Arc = &arcRecord{From: a.From, To: a.To, Delivered: a.Since.Delivered, Skipped: a.Since.Skipped}
	}
	return encodeValue(r)
}

func parseScan(value []byte) (progress.Scan, error) {
	var r scanRecord
	err := decodeValue(spacePlans, value, &r)
	s := progress.Scan{
		Joined: r.Joined, Start: r.Start, At: r.At, Delivered: r.Delivered, Skipped: r.Skipped, Done: r.Done, Dead: r.Dead, GivenUp: r.GivenUp,
	}
	if a := r.Arc; a != nil {
		s.Arc = progress.Arc{Noted: true, From: a.From, To: a.To, Since: progress.Counts{Delivered: a.Delivered, Skipped: a.Skipped}}
	}
	return s, err
}

// planRecord is what a plan is beside its scans, in CBOR.
type planRecord struct {
	Moved int64  `cbor:"1,keyasint"` // in milliseconds since 1970
	Lane  string `cbor:"2,keyasint,omitempty"`
}

func encodePlan(lane string, moved time.Time) []byte {
	return encodeValue(planRecord{Moved: moved.UnixMilli(), Lane: lane})
}

func parsePlan(value []byte) (lane string, moved time.Time, err error) {
	var r planRecord
	err = decodeValue(spacePlans, value, &r)
	return r.Lane, time.UnixMilli(r.Moved).UTC(), err
}

// read returns a fan-out, and whether it is planned.
func (s *Progress) read(id message.ID) (f progress.Fanout, planned bool, err error) {
	plan := idKey(spacePlans, id)
	f = progress.Fanout{ID: id, Scans: make(map[int]progress.Scan)}
	for key, value := range s.db.records(plan, plan, math.MaxInt, &err) {
		var err error
		if planned {
			f.Scans[partitionOf(key)], err = parseScan(value)
		} else {
			f.Lane, f.Moved, err = parsePlan(value)
			planned = true
		}
		if err != nil {
			return progress.Fanout{}, false, err
		}
	}
	return f, planned, err
}

// Plan implements progress.Store.
func (s *Progress) Plan(ctx context.Context, id message.ID, lane string, partitions []int, now time.Time) (_ progress.Fanout, err error) {
	c, err := beginChange(ctx, s.db, "progress.plan", s.locks, []message.ID{id}, idLock)
	if err != nil {
		return progress.Fanout{}, err
	}
	defer c.end(ctx, &err)
	f, planned, err := s.read(id)
	if err == nil && !planned {
		f.Lane, f.Moved = lane, now.UTC().Truncate(time.Millisecond)
		err = c.batch.Set(idKey(spacePlans, id), encodePlan(lane, f.Moved), nil)
		for _, p := range partitions {
			if err != nil {
				break
			}
			f.Scans[p] = progress.Scan{}
			err = c.batch.Set(scanKey(id, p), encodeScan(f.Scans[p]), nil)
		}
	}
	if err != nil {
		return progress.Fanout{}, fmt.Errorf("plan the fan-out of %s: %w", id, err)
	}
	return f, s.db.commit(c.batch, &c.locks)
}

// Get implements progress.Store.
func (s *Progress) Get(ctx context.Context, id message.ID) (progress.Fanout, error) {
	return calling(ctx, s.db, "progress.get", func() (progress.Fanout, error) {
		f, planned, err := s.read(id)
		if err == nil && !planned {
			err = progress.ErrNotFound
		}
		if err != nil {
			return progress.Fanout{}, fmt.Errorf("fan-out of %s: %w", id, err)
		}
		return f, nil
	})
}

// GetMany implements progress.Store.
func (s *Progress) GetMany(ctx context.Context, ids []message.ID) (fanouts []progress.Fanout, ok []bool, err error) {
	call, err := s.db.begin(ctx, "progress.get_many")
	if err != nil {
		return nil, nil, err
	}
	defer call.end(ctx, &err)
	fanouts, ok = make([]progress.Fanout, len(ids)), make([]bool, len(ids))
	for i, id := range ids {
		if fanouts[i], ok[i], err = s.read(id); err != nil {
			return nil, nil, fmt.Errorf("fan-out of %s: %w", id, err)
		}
	}
	return fanouts, ok, nil
}

func (s *Progress) scan(id message.ID, partition int) (scan progress.Scan, planned bool, err error) {
	planned, err = s.db.get(scanKey(id, partition), func(value []byte) (err error) {
		scan, err = parseScan(value)
		return err
	})
	if err != nil {
		err = fmt.Errorf("fan-out of %s in partition %d: %w", id, partition, err)
	}
	return scan, planned, err
}

// Scans implements progress.Store.
func (s *Progress) Scans(ctx context.Context, partition int, ids []message.ID) (scans []progress.Scan, ok []bool, err error) {
	call, err := s.db.begin(ctx, "progress.scans")
	if err != nil {
		return nil, nil, err
	}
	defer call.end(ctx, &err)
	scans, ok = make([]progress.Scan, len(ids)), make([]bool, len(ids))
	for i, id := range ids {
		if scans[i], ok[i], err = s.scan(id, partition); err != nil {
			return nil, nil, err
		}
	}
	return scans, ok, nil
}

// Step implements progress.Store.
func (s *Progress) Step(ctx context.Context, steps []progress.Move, now time.Time) (_ []progress.Moved, err error) {
	c, err := beginChange(ctx, s.db, "progress.step", s.locks, steps, func(step progress.Move) uint64 { return idLock(step.ID) })
	if err != nil {
		return nil, err
	}
	defer c.end(ctx, &err)
	stepped := make([]progress.Moved, len(steps))
	for i, step := range steps {
		var err error
		if stepped[i], err = s.step(c.batch, step, now); err != nil {
			return nil, err
		}
	}
	return stepped, s.db.commit(c.batch, &c.locks)
}

func (s *Progress) step(batch *pebble.Batch, step progress.Move, now time.Time) (progress.Moved, error) {
	stored, planned, err := s.scan(step.ID, step.Partition)
	if err != nil || !planned || !stored.Same(step.From) {
		return progress.Moved{Scan: stored}, err
	}
	var lane string
	_, err = s.db.get(idKey(spacePlans, step.ID), func(value []byte) (err error) {
		lane, _, err = parsePlan(value)
		return err
	})
	if err != nil {
		return progress.Moved{}, err
	}
	err = setAll(batch,
		pair{idKey(spacePlans, step.ID), encodePlan(lane, now)},
		pair{scanKey(step.ID, step.Partition), encodeScan(step.To)})
	return progress.Moved{Applied: true, Scan: step.To}, err
}

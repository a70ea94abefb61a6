package pebblestore

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/fanmail/fanmail/internal/retention"
	"github.com/fanmail/fanmail/pkg/message"
)

// Retention is the store of the record of the walk over all users, or of the pass over all edges.
type Retention struct {
	db  *DB
	key []byte
	mu  sync.Mutex // held while the record is replaced
}

var _ retention.Store = (*Retention)(nil)

var roundKey, passKey = []byte{byte(spaceRound)}, []byte{byte(spaceRound), 'e'}

// roundRecord has times in milliseconds.
type roundRecord struct {
	Revision  int64          `cbor:"1,keyasint"`
	Began     int64          `cbor:"2,keyasint"`
	Ended     bool           `cbor:"3,keyasint,omitempty"`
	Partition int            `cbor:"4,keyasint,omitempty"`
	After     message.UserID `cbor:"5,keyasint,omitempty"`
	Token     string         `cbor:"6,keyasint,omitempty"`
	Until     int64          `cbor:"7,keyasint,omitempty"`
	Number    int64          `cbor:"8,keyasint,omitempty"`
	Target    message.ID     `cbor:"9,keyasint,omitzero"`
	Missed    bool           `cbor:"10,keyasint,omitempty"`
	AsOf      int64          `cbor:"11,keyasint,omitempty"`
	Reading   int64          `cbor:"12,keyasint,omitempty"`
	LowWater  message.ID     `cbor:"13,keyasint,omitzero"`
	Proven    int64          `cbor:"14,keyasint,omitempty"`
	Active    int64          `cbor:"15,keyasint,omitempty"`
	Dormant   int64          `cbor:"16,keyasint,omitempty"`
	// Those of the last round.
	CountedActive  int64 `cbor:"17,keyasint,omitempty"`
	CountedDormant int64 `cbor:"18,keyasint,omitempty"`
}

// timesOf returns the times of a round that may be zero, by the fields of its record that hold them.
func timesOf(r *roundRecord, to *retention.Round) map[*int64]*time.Time {
	return map[*int64]*time.Time{&r.Until: &to.Until, &r.AsOf: &to.AsOf, &r.Reading: &to.Reading}
}

func roundRecordOf(r retention.Round, revision int64) roundRecord {
	encoded := roundRecord{
		Revision: revision, Began: r.Began.UnixMilli(), Ended: r.Ended, Partition: r.Partition, After: r.After, Token: r.Token,
		Number: r.Number, Target: r.Target, Missed: r.Missed, LowWater: r.LowWater, Proven: r.Proven,
		Active: r.Users.Active, Dormant: r.Users.Dormant, CountedActive: r.Counted.Active, CountedDormant: r.Counted.Dormant,
	}
	for stored, at := range timesOf(&encoded, &r) {
		if !at.IsZero() {
			*stored = at.UnixMilli()
		}
	}
	return encoded
}

func (r roundRecord) round() retention.Round {
	round := retention.Round{
		Revision: r.Revision, Began: fromMillis(r.Began), Ended: r.Ended, Partition: r.Partition, After: r.After, Token: r.Token,
		Number: r.Number, Target: r.Target, Missed: r.Missed, LowWater: r.LowWater, Proven: r.Proven,
		Users:   retention.Census{Active: r.Active, Dormant: r.Dormant},
		Counted: retention.Census{Active: r.CountedActive, Dormant: r.CountedDormant},
	}
	for stored, at := range timesOf(&r, &round) {
		if *stored != 0 {
			*at = fromMillis(*stored)
		}
	}
	return round
}

// Load implements retention.Store.
func (s *Retention) Load(ctx context.Context) (retention.Round, error) {
	return calling(ctx, s.db, "retention.load", s.read)
}

func (s *Retention) read() (r retention.Round, err error) {
	_, err = s.db.get(s.key, func(value []byte) error {
		var found roundRecord
		if err := decodeValue(spaceRound, value, &found); err != nil {
			return err
		}
		r = found.round()
		return nil
	})
	if err != nil {
		return retention.Round{}, fmt.Errorf("read the walk over all users: %w", err)
	}
	return r, nil
}

// Replace implements retention.Store. It does not wait for a sync.
func (s *Retention) Replace(ctx context.Context, from, to retention.Round) (err error) {
	call, err := s.db.begin(ctx, "retention.replace")
	if err != nil {
		return err
	}
	defer call.end(ctx, &err)
	s.mu.Lock()
	defer s.mu.Unlock()
	found, err := s.read()
	if err == nil && found.Revision != from.Revision {
		err = retention.ErrChanged
	}
	if err != nil {
		return fmt.Errorf("record the walk over all users: %w", err)
	}
	s.db.set(s.key, encodeValue(roundRecordOf(to, from.Revision+1)), pebble.NoSync)
	return nil
}

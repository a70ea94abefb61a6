package pebblestore

import (
	"context"
	"errors"
	"fmt"

	"github.com/cespare/xxhash/v2"

	"github.com/fanmail/fanmail/pkg/message"
)

// endingRecord is an ending in CBOR.
type endingRecord struct {
	Delivered int64  `cbor:"1,keyasint,omitempty"`
	Skipped   int64  `cbor:"2,keyasint,omitempty"`
	GivenUp   int64  `cbor:"3,keyasint,omitempty"`
	Closed    int64  `cbor:"4,keyasint,omitempty"`
	Lane      string `cbor:"5,keyasint,omitempty"`
}

func recordOfEnding(e message.Ending) endingRecord {
	return endingRecord{Lane: e.Lane, Delivered: e.Delivered, Skipped: e.Skipped, GivenUp: e.GivenUp, Closed: e.Closed}
}

// authorRecord is the author in a messageRecord.
type authorRecord struct {
	From message.UserID `cbor:"1,keyasint"`
}

// Endings implements message.Store.
func (s *Messages) Endings(ctx context.Context, refs []message.Ref) (_ []message.Ending, err error) {
	call, err := s.db.begin(ctx, "messages.endings")
	if err != nil {
		return nil, err
	}
	defer call.end(ctx, &err)
	endings := make([]message.Ending, len(refs))
	for i, ref := range refs {
		var err error
		if endings[i], err = s.ending(ref); errors.Is(err, ErrCorrupt) {
			endings[i], err = message.Ending{Err: fmt.Errorf("ending of %s: %w", ref.ID, err)}, nil
		}
		if err != nil {
			return nil, fmt.Errorf("ending of %s: %w", ref.ID, err)
		}
	}
	return endings, nil
}

// ending does not ask the cache, because the message may have been removed.
func (s *Messages) ending(ref message.Ref) (ending message.Ending, err error) {
	var author authorRecord
	found, err := s.db.get(idKey(spaceMessages, ref.ID), func(value []byte) error {
		b, err := messagePayload(value)
		if err != nil {
			return err
		}
		return decode(spaceMessages, b[storedAtLen:], &author)
	})
	if err != nil || !found || ref.From != "" && ref.From != author.From {
		return message.Ending{}, err
	}
	ending.Ref = message.Ref{From: author.From, ID: ref.ID}
	var r endingRecord
	ending.Concluded, err = s.db.get(idKey(spaceEndings, ref.ID), func(value []byte) error {
		return decodeValue(spaceEndings, value, &r)
	})
	ending.Lane, ending.Delivered, ending.Skipped, ending.GivenUp, ending.Closed = r.Lane, r.Delivered, r.Skipped, r.GivenUp, r.Closed
	return ending, err
}

// Conclude implements message.Store.
func (s *Messages) Conclude(ctx context.Context, endings []message.Ending) (err error) {
	call, err := s.db.begin(ctx, "messages.conclude")
	if err != nil {
		return err
	}
	defer call.end(ctx, &err)
	set := s.locks.newSet()
	for _, e := range endings {
		s.locks.add(set, xxhash.Sum64(e.Ref.ID[:]))
	}
	locks := s.locks.lock(set)
	defer locks.unlock()
	batch := s.db.engine.NewBatch()
	for _, e := range endings {
		known, err := s.ending(e.Ref)
		switch {
		case err != nil:
			return fmt.Errorf("conclude %s: %w", e.Ref.ID, err)
		case known.Over():
			continue
		}
		if err := batch.Set(idKey(spaceEndings, e.Ref.ID), encodeValue(recordOfEnding(e)), nil); err != nil {
			return fmt.Errorf("conclude %s: %w", e.Ref.ID, err)
		}
		if err := batch.Delete(idKey(spacePending, e.Ref.ID), nil); err != nil {
			return fmt.Errorf("conclude %s: %w", e.Ref.ID, err)
		}
	}
	return s.db.commit(batch, &locks)
}

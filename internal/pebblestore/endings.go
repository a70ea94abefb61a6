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
	Delivered int64 `cbor:"1,keyasint,omitempty"`
	Skipped   int64 `cbor:"2,keyasint,omitempty"`
	GivenUp   int64 `cbor:"3,keyasint,omitempty"`
	Closed    int64 `cbor:"4,keyasint,omitempty"`
}

// authorRecord is the author in a messageRecord.
type authorRecord struct {
	From message.UserID `cbor:"1,keyasint"`
}

// Endings implements message.Store.
func (s *Messages) Endings(ctx context.Context, refs []message.Ref) (_ []message.Fate, err error) {
	call, err := s.db.begin(ctx, "messages.endings")
	if err != nil {
		return nil, err
	}
	defer call.end(ctx, &err)
	fates := make([]message.Fate, len(refs))
	for i, ref := range refs {
		var err error
		if fates[i], err = s.fate(ref); errors.Is(err, ErrCorrupt) {
			fates[i], err = message.Fate{Err: fmt.Errorf("ending of %s: %w", ref.ID, err)}, nil
		}
		if err != nil {
			return nil, fmt.Errorf("ending of %s: %w", ref.ID, err)
		}
	}
	return fates, nil
}

// fate does not ask the cache, because the message may have been removed.
func (s *Messages) fate(ref message.Ref) (fate message.Fate, err error) {
	var author authorRecord
	found, err := s.db.get(idKey(spaceMessages, ref.ID), func(value []byte) error {
		b, err := messagePayload(value)
		if err != nil {
			return err
		}
		return decode(spaceMessages, b[storedAtLen:], &author)
	})
	if err != nil || !found || ref.From != "" && ref.From != author.From {
		return message.Fate{}, err
	}
	fate.Ref = message.Ref{From: author.From, ID: ref.ID}
	var ending endingRecord
	fate.Concluded, err = s.db.get(idKey(spaceEndings, ref.ID), func(value []byte) error {
		return decodeValue(spaceEndings, value, &ending)
	})
	fate.Ending = message.Ending(ending)
	return fate, err
}

// Conclude implements message.Store.
func (s *Messages) Conclude(ctx context.Context, conclusions []message.Conclusion) (err error) {
	call, err := s.db.begin(ctx, "messages.conclude")
	if err != nil {
		return err
	}
	defer call.end(ctx, &err)
	set := s.locks.newSet()
	for _, c := range conclusions {
		s.locks.add(set, xxhash.Sum64(c.Ref.ID[:]))
	}
	locks := s.locks.lock(set)
	defer locks.unlock()
	batch := s.db.engine.NewBatch()
	for _, c := range conclusions {
		fate, err := s.fate(c.Ref)
		switch {
		case err != nil:
			return fmt.Errorf("conclude %s: %w", c.Ref.ID, err)
		case fate.Over():
			continue
		}
		if err := batch.Set(idKey(spaceEndings, c.Ref.ID), encodeValue(endingRecord(c.Ending)), nil); err != nil {
			return fmt.Errorf("conclude %s: %w", c.Ref.ID, err)
		}
		if err := batch.Delete(idKey(spacePending, c.Ref.ID), nil); err != nil {
			return fmt.Errorf("conclude %s: %w", c.Ref.ID, err)
		}
	}
	return s.db.commit(batch, &locks)
}

package pebblestore

import (
	"context"
	"errors"
	"fmt"

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

// authorRecord is a part of a messageRecord.
type authorRecord struct {
	From    message.UserID `cbor:"1,keyasint"`
	Blocked int            `cbor:"7,keyasint"`
}

// parseAuthor returns a part of a message, and whether the message is void.
func parseAuthor(id message.ID, value []byte) (author authorRecord, void bool, err error) {
	b, err := payload(spaceMessages, value, storedAtLen)
	if err != nil {
		return authorRecord{}, false, err
	}
	return author, !timeOf(b).Equal(id.Time()), decode(spaceMessages, b[storedAtLen:], &author)
}

// Endings implements message.Store.
func (s *Messages) Endings(ctx context.Context, refs []message.Ref) ([]message.Ending, error) {
	return each(ctx, s.db, "messages.endings", refs, func(ref message.Ref) (message.Ending, error) {
		ending, err := s.ending(ref)
		if err != nil {
			err = fmt.Errorf("ending of %s: %w", ref.ID, err)
		}
		if errors.Is(err, ErrCorrupt) {
			return message.Ending{Err: err}, nil
		}
		return ending, err
	})
}

// ending does not ask the cache, because the message may have been removed.
func (s *Messages) ending(ref message.Ref) (ending message.Ending, err error) {
	var author authorRecord
	found, err := s.db.get(idKey(spaceMessages, ref.ID), func(value []byte) (err error) {
		author, ending.Void, err = parseAuthor(ref.ID, value)
		return err
	})
	if err != nil || !found || ref.From != "" && ref.From != author.From {
		return message.Ending{}, err
	}
	ending.Ref, ending.Blocked = message.Ref{From: author.From, ID: ref.ID}, author.Blocked
	var r endingRecord
	ending.Concluded, err = s.db.get(idKey(spaceEndings, ref.ID), func(value []byte) error {
		return decodeValue(spaceEndings, value, &r)
	})
	ending.Lane, ending.Delivered, ending.Skipped, ending.GivenUp, ending.Closed = r.Lane, r.Delivered, r.Skipped, r.GivenUp, r.Closed
	return ending, err
}

// Conclude implements message.Store.
func (s *Messages) Conclude(ctx context.Context, endings []message.Ending) (err error) {
	c, err := beginChange(ctx, s.db, "messages.conclude", s.locks, endings, func(e message.Ending) uint64 { return idLock(e.Ref.ID) })
	if err != nil {
		return err
	}
	defer c.end(ctx, &err)
	for _, e := range endings {
		known, err := s.ending(e.Ref)
		if err == nil && !known.Over() {
			if err = c.batch.Delete(idKey(spacePending, e.Ref.ID), nil); err == nil {
				err = c.batch.Set(idKey(spaceEndings, e.Ref.ID), encodeValue(recordOfEnding(e)), nil)
			}
		}
		if err != nil {
			return fmt.Errorf("conclude %s: %w", e.Ref.ID, err)
		}
	}
	return s.db.commit(c.batch, &c.locks)
}

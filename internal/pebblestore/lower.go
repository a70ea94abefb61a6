package pebblestore

import (
	"bytes"
	"context"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// Lower implements bucket.Store. It writes the lowest record of the bucket, which has the floor, and the highest one, which has the
// last. What the records between them say of the last no longer matters.
func (s *Inbox) Lower(ctx context.Context, owner message.UserID, as bucket.Outline, floor, last message.ID) (applied bool, err error) {
	err = s.change(ctx, "inbox.lower", owner, func(batch *pebble.Batch) (err error) {
		applied, err = s.lower(batch, owner, as, floor, last)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("lower the bounds of bucket %d of %s: %w", as.Sequence, owner, err)
	}
	return applied, nil
}

// lower adds what Lower changes to a batch.
func (s *Inbox) lower(batch *pebble.Batch, owner message.UserID, as bucket.Outline, floor, last message.ID) (applied bool, err error) {
	prefix := s.prefix(spaceInbox, owner)
	it, err := s.db.iterate(prefix)
	if err != nil {
		return false, err
	}
	defer closeIter(it, &err)
	if !it.SeekGE(appendPlace(bytes.Clone(prefix), as.Sequence, 0)) || !inBucket(it.Key(), prefix, as.Sequence) {
		return false, it.Error()
	}
	lowestKey := bytes.Clone(it.Key())
	lowest, err := entryAt(it)
	if err != nil {
		return false, err
	}
	lowest.content = bytes.Clone(lowest.content)
	if !it.SeekLT(appendPlace(bytes.Clone(prefix), as.Sequence, pastSlots)) {
		return false, it.Error()
	}
	highest, err := entryAt(it)
	if err != nil {
		return false, err
	}
	if _, slot := placeOf(it.Key()); slot+1 != as.Slots() || lowest.floor != as.Floor || highest.last != as.Last {
		return false, nil
	}
	s.tails.shards[s.lockOf(owner)].forget(owner) // the next push reads the last
	if bytes.Equal(it.Key(), lowestKey) {
		highest.floor, highest.last = as.Lowered(floor, last)
		return true, batch.Set(it.Key(), highest.appendTo(nil), nil)
	}
	lowest.floor, highest.last = as.Lowered(floor, last)
	if err := batch.Set(lowestKey, lowest.appendTo(nil), nil); err != nil {
		return false, err
	}
	return true, batch.Set(it.Key(), highest.appendTo(nil), nil)
}

package pebblestore

import (
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/fanmail/fanmail/pkg/message"
)

// Oldest implements message.Store.
func (s *Messages) Oldest(ctx context.Context, after, upTo message.ID, limit int) (old []message.Old, err error) {
	call, err := s.db.begin(ctx, "messages.oldest")
	if err != nil {
		return nil, err
	}
	defer call.end(ctx, &err)
	prefix := []byte{byte(spaceMessages)}
	for key, value := range s.db.records(prefix, above(prefix, after[:]), limit, &err) {
		id := idOf(key)
		if upTo.Less(id) {
			break
		}
		m, err := parseMessage(id, value)
		if err != nil {
			old = append(old, message.Old{Ref: message.Ref{ID: id}, Err: fmt.Errorf("message %s: %w", id, err)})
			continue
		}
		unfinished, err := s.db.get(idKey(spacePending, id), func([]byte) error { return nil })
		if err != nil {
			return nil, err
		}
		old = append(old, message.Old{Ref: m.Ref(), Stamp: m.Stamp, Unfinished: unfinished})
	}
	return old, err
}

// Remove implements message.Store.
func (s *Messages) Remove(ctx context.Context, refs []message.Ref) (err error) {
	c, err := beginChange(ctx, s.db, "messages.remove", s.locks, refs, func(ref message.Ref) uint64 { return idLock(ref.ID) })
	if err != nil {
		return err
	}
	defer c.end(ctx, &err)
	for _, ref := range refs {
		stored, err := s.getRef(ref)
		if errors.Is(err, message.ErrNotFound) {
			continue
		}
		if err == nil {
			err = remove(c.batch, stored.Message)
		}
		if err != nil {
			return fmt.Errorf("remove message %s: %w", ref.ID, err)
		}
	}
	if err := s.db.apply(c.batch); err != nil {
		return err
	}
	for _, ref := range refs {
		s.cache.Remove(ref.ID)
	}
	return nil
}

// remove adds the removal of a message, and of all that stands beside it, to a batch.
func remove(batch *pebble.Batch, m message.Message) error {
	keys := [][]byte{idKey(spaceMessages, m.ID), idKey(spacePending, m.ID), idKey(spaceEndings, m.ID)}
	for _, source := range m.Sources() {
		keys = append(keys, sourceKey(source, m.ID))
	}
	for _, user := range m.To {
		keys = append(keys, namingKey(user, m.ID))
	}
	return deleteAll(batch, keys...)
}

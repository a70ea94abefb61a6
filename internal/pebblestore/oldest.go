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

// Newest implements message.Store. It looks at the messages of all authors, because no index has those of one author that name their recipients.
func (s *Messages) Newest(ctx context.Context, from message.UserID, before message.ID, limit int) (refs []message.Ref, rest message.ID, err error) {
	call, err := s.db.begin(ctx, "messages.newest")
	if err != nil {
		return nil, message.ID{}, err
	}
	defer call.end(ctx, &err)
	it, err := s.db.iterate([]byte{byte(spaceMessages)})
	if err != nil {
		return nil, message.ID{}, err
	}
	defer closeIter(it, &err)
	found := it.SeekLT(idKey(spaceMessages, before))
	for looks := 0; found && looks < newestLooks && len(refs) < limit; looks++ {
		value, err := it.ValueAndErr()
		if err != nil {
			return nil, message.ID{}, fmt.Errorf("read from the store: %w", err)
		}
		rest = idOf(it.Key())
		author, _, err := parseAuthor(rest, value)
		if err == nil && (from == "" || from == author.From) { // every reader of a damaged message gets the error
			refs = append(refs, message.Ref{From: author.From, ID: rest})
		}
		found = it.Prev()
	}
	if !found {
		rest = message.ID{}
	}
	return refs, rest, it.Error()
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

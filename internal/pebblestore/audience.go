package pebblestore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/fanmail/fanmail/pkg/message"
)

// encodeJudgedTime returns the value of a message in the authors space: see messageRecord.
func encodeJudgedTime(at time.Time) []byte {
	return appendTime(append(make([]byte, 0, 1+storedAtLen), version), at)
}

func parseJudgedTime(value []byte) (time.Time, error) {
	b, err := payload(spaceAuthors, value, storedAtLen)
	if err != nil {
		return time.Time{}, err
	}
	if len(b) != storedAtLen {
		return time.Time{}, corrupt(spaceAuthors)
	}
	return timeOf(b), nil
}

// ToFollowers implements message.Store. It costs one seek for each range that can still add a result, and one read for each
// returned message.
func (s *Messages) ToFollowers(ctx context.Context, ranges []message.Range, order message.Order, limit int) ([]message.Stored, error) {
	return calling(ctx, s.db, "messages.to_followers", func() ([]message.Stored, error) {
		found, err := s.search(spaceAuthors, "", ranges, order, limit)
		if err != nil {
			return nil, fmt.Errorf("messages of %d authors and topics: %w", len(ranges), err)
		}
		return found, nil
	})
}

// Naming implements message.Store.
func (s *Messages) Naming(ctx context.Context, user message.UserID, after, before message.ID, order message.Order, limit int) ([]message.Stored, error) {
	return calling(ctx, s.db, "messages.naming", func() ([]message.Stored, error) {
		found, err := s.search(spaceNaming, user, []message.Range{{From: user.Source(), After: after, Before: before}}, order, limit)
		if err != nil {
			return nil, fmt.Errorf("messages that name %s: %w", user, err)
		}
		return found, nil
	})
}

// search returns the messages that an index names in the ranges, short for a user. One batch removes a message and its places in the indexes, so a message that
// was removed after the index was read is not named again. One that is named again and is not there was lost.
func (s *Messages) search(index space, user message.UserID, ranges []message.Range, order message.Order, limit int) ([]message.Stored, error) {
	for lost := (message.ID{}); ; {
		ids := &best{limit: limit, order: order}
		if err := s.collect(index, ranges, ids); err != nil {
			return nil, err
		}
		messages := make([]message.Stored, 0, len(ids.ids))
		for _, id := range ids.ids {
			m, err := s.get(id)
			if errors.Is(err, message.ErrNotFound) && id != lost {
				lost = id
				break
			}
			if err != nil {
				return nil, err
			}
			messages = append(messages, m.Short(user))
		}
		if len(messages) == len(ids.ids) {
			return messages, nil
		}
	}
}

// collect offers the ids of an index in the ranges. It leaves a range when no later id of the range can be among the best.
func (s *Messages) collect(index space, ranges []message.Range, ids *best) (err error) {
	it, err := s.db.iterate([]byte{byte(index)})
	if err != nil {
		return err
	}
	defer closeIter(it, &err)
	r := rangeReader{it: it, index: index}
	for _, in := range ranges {
		in = ids.narrow(in)
		found := r.seek(in, ids.order)
		for found && ids.offer(idOf(it.Key())) {
			found = r.next(ids.order)
		}
		if err := it.Error(); err != nil {
			return fmt.Errorf("read from the store: %w", err)
		}
	}
	return nil
}

// CountToFollowers implements message.Store. It reads only the index. One message may be in the ranges of several sources, so the ids of
// those that are in a range of a topic are in memory.
func (s *Messages) CountToFollowers(ctx context.Context, ranges []message.Range) (count int64, err error) {
	call, err := s.db.begin(ctx, "messages.count_to_followers")
	if err != nil {
		return 0, err
	}
	defer call.end(ctx, &err)
	it, err := s.db.iterate([]byte{byte(spaceAuthors)})
	if err != nil {
		return 0, err
	}
	defer closeIter(it, &err)
	c := counter{rangeReader: rangeReader{it: it, index: spaceAuthors}}
	var ofTopics []message.ID
	for _, in := range ranges {
		if in.From.IsTopic() {
			if err := c.each(in, func(id message.ID) { ofTopics = append(ofTopics, id) }); err != nil {
				return 0, err
			}
		}
	}
	slices.SortFunc(ofTopics, message.ID.Compare)
	ofTopics = slices.Compact(ofTopics)
	for _, in := range ranges {
		if in.From.IsTopic() {
			continue
		}
		err := c.each(in, func(id message.ID) {
			if _, counted := slices.BinarySearchFunc(ofTopics, id, message.ID.Compare); !counted {
				count++
			}
		})
		if err != nil {
			return 0, err
		}
	}
	return count + int64(len(ofTopics)), nil
}

// counter reads the messages in ranges that are not void.
type counter struct {
	rangeReader
}

func (c *counter) each(in message.Range, do func(message.ID)) error {
	for found := c.seek(in, message.OldestFirst); found; found = c.next(message.OldestFirst) {
		value, err := c.it.ValueAndErr()
		if err != nil {
			return fmt.Errorf("read from the store: %w", err)
		}
		judged, err := parseJudgedTime(value)
		if err != nil {
			return fmt.Errorf("messages of %s: %w", in.From, err)
		}
		if id := idOf(c.it.Key()); judged.Equal(id.Time()) {
			do(id)
		}
	}
	if err := c.it.Error(); err != nil {
		return fmt.Errorf("read from the store: %w", err)
	}
	return nil
}

// rangeReader iterates over ranges of an index, one after another, and reuses memory.
type rangeReader struct {
	it     *pebble.Iterator
	index  space
	key    []byte // the key of the end of the range at which the search begins
	prefix int    // the length of the key without the id
	until  message.ID
}

// seek moves to the first id in a range, in the given order, and reports whether it exists.
func (r *rangeReader) seek(in message.Range, order message.Order) bool {
	if !in.After.Less(in.Before) {
		return false
	}
	r.key = appendIndexed(r.key[:0], r.index, in.From)
	r.prefix = len(r.key)
	if order == message.NewestFirst {
		r.key, r.until = append(r.key, in.Before[:]...), in.After
		return r.inRange(r.it.SeekLT(r.key), order)
	}
	// With a zero byte appended, the key is the least one above in.After.
	r.key, r.until = append(append(r.key, in.After[:]...), 0), in.Before
	return r.inRange(r.it.SeekGE(r.key), order)
}

// next moves to the next id in the range and reports whether it exists.
func (r *rangeReader) next(order message.Order) bool {
	if order == message.NewestFirst {
		return r.inRange(r.it.Prev(), order)
	}
	return r.inRange(r.it.Next(), order)
}

func (r *rangeReader) inRange(found bool, order message.Order) bool {
	if !found || !bytes.HasPrefix(r.it.Key(), r.key[:r.prefix]) {
		return false
	}
	id := idOf(r.it.Key())
	if order == message.NewestFirst {
		return r.until.Less(id)
	}
	return id.Less(r.until)
}

// best keeps the first ids in an order, at most limit, of those that it is offered.
type best struct {
	ids   []message.ID
	limit int
	order message.Order
}

// narrow returns the part of a range that can still hold one of the best.
func (b *best) narrow(in message.Range) message.Range {
	if len(b.ids) < b.limit {
		return in
	}
	if b.limit <= 0 {
		return message.Range{}
	}
	switch last := b.ids[b.limit-1]; {
	case b.order == message.NewestFirst && in.After.Less(last):
		in.After = last
	case b.order == message.OldestFirst && last.Less(in.Before):
		in.Before = last
	}
	return in
}

// offer keeps an id if it is one of the best. It reports whether a later id can be one of the best, too.
func (b *best) offer(id message.ID) bool {
	place, known := slices.BinarySearchFunc(b.ids, id, b.compare)
	switch {
	case known: // it was found by another source
		return true
	case place >= b.limit:
		return false
	}
	if len(b.ids) == b.limit {
		b.ids = b.ids[:b.limit-1]
	}
	b.ids = slices.Insert(b.ids, place, id)
	return true
}

func (b *best) compare(x, y message.ID) int {
	if b.order == message.NewestFirst {
		return y.Compare(x)
	}
	return x.Compare(y)
}

package pebblestore

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/fanmail/fanmail/internal/partition"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/topic"
)

// Edges is the store of edges. It stores each edge twice, once for each end.
type Edges struct {
	db    *DB
	locks stripes
}

var _ follow.Store = (*Edges)(nil)

// spanLen is the length of an encoded span: since and until. Spans are not CBOR, because fan-out reads the spans of every follower.
const spanLen = 8 + 8

// numberLen is the length of an encoded number. It follows the spans of an edge that has one.
const numberLen = 8

func encodeSpans(e follow.Edge) []byte {
	b := append(make([]byte, 0, 1+len(e.Spans)*spanLen+numberLen), version)
	for _, s := range e.Spans {
		b = appendTime(appendTime(b, s.Since), s.Until)
	}
	if e.Number != 0 {
		b = binary.BigEndian.AppendUint64(b, uint64(e.Number)) //nolint:gosec // the conversion keeps the bits
	}
	return b
}

// parseEdge sets the spans and the number of an edge. It appends the spans to spans, so that those of many edges share memory, and returns the
// result.
func parseEdge(s space, e *follow.Edge, spans []follow.Span, value []byte) ([]follow.Span, error) {
	b, err := payload(s, value, spanLen)
	if err != nil {
		return nil, err
	}
	if last := len(b) - numberLen; len(b)%spanLen == numberLen && e.Followee.IsTopic() {
		e.Number = topic.Number(binary.BigEndian.Uint64(b[last:])) //nolint:gosec // the conversion keeps the bits
		b = b[:last]
	}
	if len(b)%spanLen != 0 {
		return nil, corrupt(s)
	}
	first := len(spans)
	for ; len(b) > 0; b = b[spanLen:] {
		spans = append(spans, follow.Span{Since: timeOf(b), Until: timeOf(b[8:])})
	}
	e.Spans = spans[first:len(spans):len(spans)]
	return spans, nil
}

// read returns an edge. An edge that is not stored has no spans.
func (s *Edges) read(p follow.Pair) (follow.Edge, error) {
	e := follow.Edge{Follower: p.Follower, Followee: p.Followee}
	_, err := s.db.get(append(followingPrefix(p.Follower), p.Followee...), func(value []byte) (err error) {
		_, err = parseEdge(spaceFollowing, &e, nil, value)
		return err
	})
	if err != nil {
		return e, fmt.Errorf("edge from %s to %s: %w", p.Follower, p.Followee, err)
	}
	return e, nil
}

func (s *Edges) write(batch *pebble.Batch, e follow.Edge) error {
	spans := encodeSpans(e)
	followers := followersPrefix(e.Followee, partition.Of(e.Follower, s.db.partitions))
	return setAll(batch,
		pair{append(followers, e.Follower...), spans},
		pair{append(followingPrefix(e.Follower), e.Followee...), spans})
}

// change replaces edges by what to makes of them, and returns them as they are then.
func (s *Edges) change(ctx context.Context, op string, pairs []follow.Pair, to func(follow.Edge) (follow.Edge, bool)) (_ []follow.Edge, err error) {
	c, err := beginChange(ctx, s.db, op, s.locks, pairs, edgeLock)
	if err != nil {
		return nil, err
	}
	defer c.end(ctx, &err)
	edges := make([]follow.Edge, len(pairs))
	for i, p := range pairs {
		e, err := s.read(p)
		if err == nil {
			var changed bool
			if edges[i], changed = to(e); changed {
				err = s.write(c.batch, edges[i])
			}
		}
		if err != nil {
			return nil, err
		}
	}
	return edges, s.db.commit(c.batch, &c.locks)
}

// Follow implements follow.Store.
func (s *Edges) Follow(ctx context.Context, pairs []follow.Pair, at time.Time) ([]follow.Edge, error) {
	return s.change(ctx, "edges.follow", pairs, func(e follow.Edge) (follow.Edge, bool) { return e.Follow(at) })
}

// Unfollow implements follow.Store.
func (s *Edges) Unfollow(ctx context.Context, pair follow.Pair, at time.Time) error {
	_, err := s.change(ctx, "edges.unfollow", []follow.Pair{pair}, func(e follow.Edge) (follow.Edge, bool) { return e.Unfollow(at) })
	return err
}

// Subscribe implements follow.Store.
func (s *Edges) Subscribe(ctx context.Context, subscriptions []follow.Subscription, at time.Time) ([]follow.Edge, error) {
	pairs, numbers := make([]follow.Pair, len(subscriptions)), make(map[follow.Pair]topic.Number, len(subscriptions))
	for i, sub := range subscriptions {
		pairs[i], numbers[sub.Pair] = sub.Pair, sub.Number
	}
	return s.change(ctx, "edges.subscribe", pairs, func(e follow.Edge) (follow.Edge, bool) {
		return e.Subscribe(numbers[follow.Pair{Follower: e.Follower, Followee: e.Followee}], at)
	})
}

// End implements follow.Store.
func (s *Edges) End(ctx context.Context, sub follow.Subscription, at time.Time) error {
	_, err := s.change(ctx, "edges.end", []follow.Pair{sub.Pair}, func(e follow.Edge) (follow.Edge, bool) { return e.End(sub.Number, at) })
	return err
}

// DropSpans implements follow.Store.
func (s *Edges) DropSpans(ctx context.Context, pair follow.Pair, spans []follow.Span) error {
	_, err := s.change(ctx, "edges.drop_spans", []follow.Pair{pair}, func(e follow.Edge) (follow.Edge, bool) { return e.Drop(spans) })
	return err
}

// Get implements follow.Store.
func (s *Edges) Get(ctx context.Context, pairs []follow.Pair) ([]follow.Edge, error) {
	return each(ctx, s.db, "edges.get", pairs, s.read)
}

// Followers implements follow.Store.
func (s *Edges) Followers(ctx context.Context, followee message.Source, partition int, after message.UserID, limit int) ([]follow.Edge, error) {
	return calling(ctx, s.db, "edges.followers", func() ([]follow.Edge, error) {
		return s.scan(nil, spaceFollowers, followersPrefix(followee, partition), string(after), limit, func(follower string) follow.Edge {
			return follow.Edge{Follower: message.UserID(follower), Followee: followee}
		})
	})
}

// Audience implements follow.Store.
func (s *Edges) Audience(ctx context.Context, followees []message.Source, limit int) ([]follow.Edge, error) {
	return calling(ctx, s.db, "edges.audience", func() (edges []follow.Edge, err error) {
		for _, followee := range followees {
			edges, err = s.scan(edges, spaceFollowers, audiencePrefix(followee), "", limit, func(rest string) follow.Edge {
				return follow.Edge{Follower: message.UserID(rest[partitionLen:]), Followee: followee}
			})
			if err != nil || len(edges) >= limit {
				break
			}
		}
		return edges, err
	})
}

// Following implements follow.Store.
func (s *Edges) Following(ctx context.Context, follower message.UserID, after message.Source, limit int) ([]follow.Edge, error) {
	return calling(ctx, s.db, "edges.following", func() ([]follow.Edge, error) {
		return s.scan(nil, spaceFollowing, followingPrefix(follower), string(after), limit, func(followee string) follow.Edge {
			return follow.Edge{Follower: follower, Followee: message.Source(followee)}
		})
	})
}

// Count implements follow.Store.
func (s *Edges) Count(ctx context.Context, followers []message.UserID, limit int) (counts []int, err error) {
	call, err := s.db.begin(ctx, "edges.count")
	if err != nil {
		return nil, err
	}
	defer call.end(ctx, &err)
	it, err := s.db.iterate([]byte{byte(spaceFollowing)})
	if err != nil {
		return nil, err
	}
	defer closeIter(it, &err)
	counts = make([]int, len(followers))
	for i, follower := range followers {
		prefix := followingPrefix(follower)
		for found := it.SeekGE(prefix); found && counts[i] < limit && bytes.HasPrefix(it.Key(), prefix); found = it.Next() {
			counts[i]++
		}
	}
	return counts, it.Error()
}

// scan appends edges whose keys have a prefix and end in a name above after, until there are limit edges. The names share one string.
func (s *Edges) scan(edges []follow.Edge, in space, prefix []byte, after string, limit int, edge func(string) follow.Edge) (_ []follow.Edge, err error) {
	var names, values []byte
	var ends [][2]int // of each edge's name and value
	for key, value := range s.db.records(prefix, above(prefix, []byte(after)), limit-len(edges), &err) {
		names, values = append(names, key[len(prefix):]...), append(values, value...)
		ends = append(ends, [2]int{len(names), len(values)})
	}
	if err != nil {
		return nil, err
	}
	all, from := string(names), [2]int{}
	edges, spans := slices.Grow(edges, len(ends)), make([]follow.Span, 0, len(values)/spanLen)
	for _, end := range ends {
		e := edge(all[from[0]:end[0]])
		if spans, err = parseEdge(in, &e, spans, values[from[1]:end[1]]); err != nil {
			return nil, err
		}
		edges, from = append(edges, e), end
	}
	return edges, nil
}

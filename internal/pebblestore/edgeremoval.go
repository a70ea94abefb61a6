package pebblestore

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/fanmail/fanmail/internal/partition"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
)

// Ended implements follow.Store. A place is what follows the space in the key of an edge in the following space.
func (s *Edges) Ended(ctx context.Context, place string, by time.Time, limit int) (ended []follow.Edge, next string, err error) {
	call, err := s.db.begin(ctx, "edges.ended")
	if err != nil {
		return nil, "", err
	}
	defer call.end(ctx, &err)
	prefix := []byte{byte(spaceFollowing)}
	it, err := s.db.iterate(prefix)
	if err != nil {
		return nil, "", err
	}
	defer closeIter(it, &err)
	looks := 0
	for found := seekAbove(it, prefix, []byte(place)); found && looks < limit; found = it.Next() {
		value, err := it.ValueAndErr()
		if err != nil {
			return nil, "", fmt.Errorf("read from the store: %w", err)
		}
		next = string(it.Key()[1:])
		follower, followee, _ := bytes.Cut([]byte(next), []byte{terminator})
		e := follow.Edge{Follower: message.UserID(follower), Followee: message.Source(followee)}
		var damaged error // every reader of the edge gets it
		if _, damaged = parseEdge(spaceFollowing, &e, nil, value); damaged == nil && e.EndedBy(by) {
			ended = append(ended, e)
		}
		looks++
	}
	if looks < limit {
		next = ""
	}
	return ended, next, it.Error()
}

// Remove implements follow.Store.
func (s *Edges) Remove(ctx context.Context, edges []follow.Edge) (err error) {
	call, err := s.db.begin(ctx, "edges.remove")
	if err != nil {
		return err
	}
	defer call.end(ctx, &err)
	set := s.locks.newSet()
	for _, e := range edges {
		s.locks.add(set, edgeLock(follow.Pair{Follower: e.Follower, Followee: e.Followee}))
	}
	locks := s.locks.lock(set)
	defer locks.unlock()
	batch := s.db.engine.NewBatch()
	for _, e := range edges {
		there, err := s.read(follow.Pair{Follower: e.Follower, Followee: e.Followee})
		if err != nil {
			return fmt.Errorf("edge from %s to %s: %w", e.Follower, e.Followee, err)
		}
		if !there.Equal(e) {
			continue
		}
		for _, key := range [][]byte{
			append(followersPrefix(e.Followee, partition.Of(e.Follower, s.db.partitions)), e.Follower...),
			append(followingPrefix(e.Follower), e.Followee...),
		} {
			if err := batch.Delete(key, nil); err != nil {
				return err
			}
		}
	}
	return s.db.apply(batch)
}

func edgeLock(p follow.Pair) uint64 {
	return xxhash.Sum64String(string(p.Follower) + "\x00" + string(p.Followee))
}

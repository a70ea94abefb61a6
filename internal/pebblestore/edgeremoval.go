package pebblestore

import (
	"bytes"
	"context"
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
	looks := 0
	for key, value := range s.db.records(prefix, above(prefix, []byte(place)), limit, &err) {
		next = string(key[1:])
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
	return ended, next, err
}

// Remove implements follow.Store.
func (s *Edges) Remove(ctx context.Context, edges []follow.Edge) (err error) {
	pairOf := func(e follow.Edge) follow.Pair { return follow.Pair{Follower: e.Follower, Followee: e.Followee} }
	c, err := beginChange(ctx, s.db, "edges.remove", s.locks, edges, func(e follow.Edge) uint64 { return edgeLock(pairOf(e)) })
	if err != nil {
		return err
	}
	defer c.end(ctx, &err)
	for _, e := range edges {
		there, err := s.read(pairOf(e))
		if err != nil {
			return err
		}
		if !there.Equal(e) {
			continue
		}
		followers := followersPrefix(e.Followee, partition.Of(e.Follower, s.db.partitions))
		if err := deleteAll(c.batch, append(followers, e.Follower...), append(followingPrefix(e.Follower), e.Followee...)); err != nil {
			return err
		}
	}
	return s.db.apply(c.batch)
}

func edgeLock(p follow.Pair) uint64 {
	return xxhash.Sum64String(string(p.Follower) + "\x00" + string(p.Followee))
}

package publish_test

import (
	"context"
	"errors"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/publish"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
)

// naming returns a request with a key, for users and for the author's followers.
func naming(key string, users ...message.UserID) publish.Request {
	r := request(key, "body")
	r.Draft.To = users
	return r
}

// A message leaves out the users who block its author when it is sent, by one read for a whole request. A repetition changes nothing, and is no other
// request.
func TestBlockedNamesAreLeftOut(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	reads, failure := 0, error(nil)
	opts := d.options(0, nil, zerolog.Nop())
	opts.Blocks = func(ctx context.Context, pairs []follow.Pair) (map[follow.Pair]bool, error) {
		reads++
		blocks, err := d.Following(0).Blocks(ctx, pairs)
		return blocks, errors.Join(err, failure)
	}
	service := publish.New(d.store, d.Keys, d.emitter, opts)
	for _, user := range []message.UserID{"ben", "dan"} {
		require.NoError(t, d.Following(0).Block(t.Context(), follow.Pair{Follower: user, Followee: "author"}))
	}
	require.NoError(t, d.Following(0).Block(t.Context(), follow.Pair{Follower: "author", Followee: "ann"}))
	alone := publish.Request{Draft: message.Draft{From: "author", To: []message.UserID{"ben"}, Body: "body"}}
	requests := []publish.Request{naming("key", "dan", "author", "ben", "ann"), alone, request("", "body"), naming("", "ann")}
	results := service.Publish(t.Context(), requests)
	require.Equal(t, 1, reads)
	var ids []message.ID
	for i, want := range []struct {
		to      []message.UserID
		blocked int
	}{{[]message.UserID{"ann", "author"}, 2}, {nil, 1}, {nil, 0}, {[]message.UserID{"ann"}, 0}} {
		require.NoError(t, results[i].Err)
		stored, err := d.Messages.Get(t.Context(), results[i].Message.Ref())
		require.NoError(t, err)
		require.ElementsMatch(t, want.to, stored.To)
		require.Equal(t, want.blocked, stored.Blocked)
		ids = append(ids, stored.ID)
	}

	require.NoError(t, d.Following(0).Unblock(t.Context(), follow.Pair{Follower: "ben", Followee: "author"}))
	require.Equal(t, ids[0], one(t, service.Publish(t.Context(), requests[:1])).ID)
	stored, err := d.Messages.Get(t.Context(), message.Ref{From: "author", ID: ids[0]})
	require.NoError(t, err)
	require.Equal(t, []message.UserID{"ann", "author"}, stored.To)

	failure = message.ErrUnavailable
	results = service.Publish(t.Context(), requests)
	require.ErrorIs(t, results[1].Err, message.ErrUnavailable, "nobody knows whether it may go to ben")
	require.NoError(t, results[2].Err)
}

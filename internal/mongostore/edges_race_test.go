//go:build mongodb

package mongostore_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/event"
	"golang.org/x/sync/errgroup"

	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/follow"
)

// TestEdgesThatChangeWhileTheyAreMirrored ends edges of an import at the moment at which the import writes their second documents:
// of two writes that are about to make a document, each for a revision of its own, the later revision has to be in it.
func TestEdgesThatChangeWhileTheyAreMirrored(t *testing.T) {
	t.Parallel()
	const count, enders = 600, 8
	other, opts := create(t)
	mirroring := make(chan struct{})
	begun := sync.OnceFunc(func() { close(mirroring) })
	watched := opts.Monitor.Started
	opts.Monitor = &event.CommandMonitor{Started: func(ctx context.Context, e *event.CommandStartedEvent) {
		watched(ctx, e)
		if e.CommandName == "update" && e.Command.Lookup("update").StringValue() == "following" {
			begun()
		}
	}}
	importer := open(t, opts).Edges()
	pairs := make([]follow.Pair, count)
	for i, user := range numbered(count) {
		pairs[i] = follow.Pair{Follower: user, Followee: "star"}
	}
	group, ctx := errgroup.WithContext(t.Context())
	group.Go(func() error {
		defer begun()
		_, err := importer.Follow(ctx, pairs, messagetest.Epoch)
		return err
	})
	<-mirroring
	for first := range enders {
		group.Go(func() error {
			for i := first; i < count; i += enders {
				if err := other.Edges().Unfollow(ctx, pairs[i], messagetest.Epoch.Add(time.Hour)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
	for _, p := range pairs {
		edges, err := other.Edges().Following(t.Context(), p.Follower, "", 2)
		require.NoError(t, err)
		require.Len(t, edges, 1)
		require.False(t, edges[0].Open(), "%s has unfollowed", p.Follower)
	}
}

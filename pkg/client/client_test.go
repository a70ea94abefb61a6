package client_test

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
)

func TestNew(t *testing.T) {
	t.Parallel()
	for _, server := range []string{"", "127.0.0.1:8080", "localhost", "ftp://localhost", "http://", "http://a b", "http://localhost?x=1", "http://localhost/#x"} {
		t.Run(server, func(t *testing.T) {
			t.Parallel()
			_, err := client.New(server, client.Options{})
			require.ErrorContains(t, err, fmt.Sprintf("%q", server))
		})
	}
}

func TestPublishAndRead(t *testing.T) {
	t.Parallel()
	c, ctx := newClient(t), t.Context()
	require.NoError(t, c.SetSeen(ctx, "bob", epoch))
	draft := message.Draft{From: "ann/x", To: []message.UserID{"bob"}, Body: "hello <you> 😀", ContentType: "text/plain", Attrs: []byte(`{"n":1}`)}
	_, err := c.Publish(ctx, draft, "")
	var problem *client.Problem
	require.ErrorAs(t, err, &problem)
	require.Equal(t, client.ProblemInvalid, problem.Type)
	require.Equal(t, "from", problem.Field)

	draft.From = "ann"
	receipt, err := c.Publish(ctx, draft, "key")
	require.NoError(t, err)
	require.Equal(t, message.UserID("ann"), receipt.From)
	require.Equal(t, epoch, receipt.Sent.Time)
	again, err := c.Publish(ctx, draft, "key")
	require.NoError(t, err)
	require.Equal(t, receipt, again)

	status, err := c.WaitDone(ctx, receipt.ID, 0)
	require.NoError(t, err)
	require.Equal(t, client.Status{
		ID: receipt.ID, From: "ann", Sent: receipt.Sent, To: draft.To, Body: draft.Body, ContentType: draft.ContentType, Attrs: draft.Attrs,
		Fanout: client.Fanout{State: client.StateDone, Recipients: 1, Delivered: 1},
	}, status)

	page, err := c.Inbox(ctx, "bob", client.InboxOptions{})
	require.NoError(t, err)
	require.Equal(t, client.InboxPage{
		Messages: []client.InboxMessage{{
			ID: receipt.ID, From: "ann", Sent: receipt.Sent, Body: draft.Body, ContentType: draft.ContentType, Attrs: draft.Attrs,
		}},
		Total: 1, Unread: 1, Complete: true, BucketsRead: 1,
	}, page)
	require.NoError(t, c.MarkRead(ctx, "bob", receipt.ID))
	require.NoError(t, c.Delete(ctx, "bob", receipt.ID))
	user, err := c.User(ctx, "bob")
	require.NoError(t, err)
	require.Equal(t, client.User{User: "bob", State: client.Active, LastViewed: client.Time{Time: epoch}}, user)
}

func TestPublishBatch(t *testing.T) {
	t.Parallel()
	c, ctx := newClient(t), t.Context()
	require.NoError(t, c.SetSeen(ctx, "bob", epoch))
	var drafts []message.Draft
	for n := range 230 {
		drafts = append(drafts, message.Draft{From: "ann", To: []message.UserID{"bob"}, Body: strconv.Itoa(n)})
	}
	drafts[100].To = nil
	answers, err := c.PublishBatch(ctx, drafts, "batch")
	require.NoError(t, err)
	require.Len(t, answers, len(drafts))
	for n, a := range answers {
		if n == 100 {
			var problem *client.Problem
			require.ErrorAs(t, a.Err, &problem)
			require.Equal(t, 101, problem.Line)
			continue
		}
		require.NoError(t, a.Err)
		require.False(t, a.ID.IsZero())
	}
	again, err := c.PublishBatch(ctx, drafts, "batch")
	require.NoError(t, err)
	require.Equal(t, answers, again)

	var bodies []string
	for m, err := range c.InboxAll(ctx, "bob", client.InboxOptions{Limit: 100, Peek: true}) {
		require.NoError(t, err)
		bodies = append(bodies, m.Body)
	}
	require.Len(t, bodies, 229)
	require.Equal(t, "229", bodies[0])
	require.Equal(t, "0", bodies[228])
}

func TestFollowing(t *testing.T) {
	t.Parallel()
	c, ctx := newClient(t), t.Context()
	require.NoError(t, c.Follow(ctx, "ü", "100%"))
	result, err := c.FollowBatch(ctx, []follow.Pair{{Follower: "bob", Followee: "ann"}, {Follower: "bob", Followee: "bob"}, {Follower: "bob", Followee: "cy"}})
	require.NoError(t, err)
	require.Equal(t, 2, result.Accepted)
	require.Len(t, result.Rejected, 1)
	require.Equal(t, 2, result.Rejected[0].Line)
	page, err := c.Following(ctx, "bob", "", 1)
	require.NoError(t, err)
	require.Equal(t, client.UserPage{Users: []message.UserID{"ann"}, Next: "ann"}, page)
	page, err = c.Following(ctx, "bob", page.Next, 0)
	require.NoError(t, err)
	require.Equal(t, client.UserPage{Users: []message.UserID{"cy"}}, page)
	page, err = c.Followers(ctx, "100%", "", 0)
	require.NoError(t, err)
	require.Equal(t, []message.UserID{"ü"}, page.Users)
	require.NoError(t, c.Unfollow(ctx, "ü", "100%"))
	page, err = c.Followers(ctx, "100%", "", 0)
	require.NoError(t, err)
	require.Empty(t, page.Users)
}

func TestSetSeenBatch(t *testing.T) {
	t.Parallel()
	c, ctx := newClient(t), t.Context()
	result, err := c.SetSeenBatch(ctx, []client.Seen{{User: "bob", LastViewed: epoch}, {User: "cy", LastViewed: epoch.Add(time.Hour)}})
	require.NoError(t, err)
	require.Equal(t, client.BatchResult{Accepted: 1, Rejected: []client.Rejection{{Line: 2, Error: "last_viewed is in the future: give the time at which the user looked"}}}, result)
}

func TestIDsThatAreNotValidAreNotSent(t *testing.T) {
	t.Parallel()
	c := pretend(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	for _, user := range []message.UserID{"", ".", "..", "a/b", "a b"} {
		for name, call := range map[string]func() error{
			"follow":  func() error { return c.Follow(t.Context(), "bob", user) },
			"delete":  func() error { return c.Delete(t.Context(), user, message.MaxID) },
			"seen":    func() error { return c.SetSeen(t.Context(), user, epoch) },
			"inbox":   func() error { _, err := c.Inbox(t.Context(), user, client.InboxOptions{}); return err },
			"listing": func() error { _, err := c.Followers(t.Context(), user, "", 0); return err },
		} {
			require.ErrorIs(t, call(), message.ErrInvalid, "%s %q", name, user)
		}
	}
}

package client_test

import (
	"encoding/json"
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
			require.ErrorContains(t, err, fmt.Sprintf("server %q", server))
			if server != "" {
				_, err = client.New("http://localhost", client.Options{Rehydrator: server})
				require.ErrorContains(t, err, fmt.Sprintf("rehydrator %q", server))
			}
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
		Fanout: client.Fanout{State: message.StateDone, Recipients: 1, Delivered: 1},
	}, status)

	page, err := c.Inbox(ctx, "bob", client.InboxOptions{})
	require.NoError(t, err)
	require.Equal(t, client.InboxPage{
		Messages: []client.InboxMessage{{
			ID: receipt.ID, From: "ann", Sent: receipt.Sent, To: draft.To, ToCount: 1, Body: draft.Body, ContentType: draft.ContentType,
			Attrs: draft.Attrs,
		}},
		Cursor: page.Cursor, Tally: client.Tally{Total: 1, Unread: 1, Unseen: 1}, Version: []int64{1, 0, 0, 0, 0}, Complete: true, BucketsRead: 1,
	}, page)
	require.NoError(t, c.MarkAllRead(ctx, "bob", page.Cursor))
	require.NoError(t, c.Seen(ctx, "bob", page.Cursor))
	other := receipt.ID
	other[15]++
	marked, err := c.Mark(ctx, "bob", client.MessageMarks{IDs: []message.ID{receipt.ID, other}, Read: new(false), Archived: new(true)})
	require.NoError(t, err)
	require.Equal(t, client.Marked{Changed: 1, Missing: []message.ID{other}}, marked)
	count, err := c.Count(ctx, "bob")
	require.NoError(t, err)
	require.Equal(t, client.InboxCount{User: "bob", Tally: client.Tally{Archived: 1}, Complete: true}, count)
	page, err = c.Inbox(ctx, "bob", client.InboxOptions{Archived: client.ArchivedOnly})
	require.NoError(t, err)
	require.Len(t, page.Messages, 1)
	require.True(t, page.Messages[0].Archived && !page.Messages[0].Read)
	require.Equal(t, &receipt.ID, page.ReadUpTo)
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
	require.NoError(t, c.RemoveFollower(ctx, "100%", "ü"))
	page, err = c.Followers(ctx, "100%", "", 0)
	require.NoError(t, err)
	require.Empty(t, page.Users)
	require.NoError(t, c.Follow(ctx, "ü", "100%"))
	require.NoError(t, c.Unfollow(ctx, "ü", "100%"))
	page, err = c.Followers(ctx, "100%", "", 0)
	require.NoError(t, err)
	require.Empty(t, page.Users)
}

func TestBlock(t *testing.T) {
	t.Parallel()
	c, ctx := newClient(t), t.Context()
	require.NoError(t, c.Follow(ctx, "ann", "bob"))
	require.NoError(t, c.Block(ctx, "bob", "ann"))
	page, err := c.Blocked(ctx, "bob", "", 0)
	require.NoError(t, err)
	require.Equal(t, client.UserPage{Users: []message.UserID{"ann"}}, page)
	var problem *client.Problem
	require.ErrorAs(t, c.Follow(ctx, "ann", "bob"), &problem)
	require.Equal(t, client.ProblemBlocked, problem.Type)
	require.NoError(t, c.Unblock(ctx, "bob", "ann"))
	require.NoError(t, c.Follow(ctx, "ann", "bob"))
	require.Error(t, c.Block(ctx, "bob", "bob"))
}

func TestSetSeenBatch(t *testing.T) {
	t.Parallel()
	c, ctx := newClient(t), t.Context()
	result, err := c.SetSeenBatch(ctx, []client.Seen{{User: "bob", LastViewed: epoch}, {User: "cy", LastViewed: epoch.Add(time.Hour)}})
	require.NoError(t, err)
	require.Equal(t, client.BatchResult{Accepted: 1, Rejected: []client.Rejection{{Line: 2, Error: "last_viewed is in the future: give the time at which the user looked"}}}, result)
}

func TestLogin(t *testing.T) {
	t.Parallel()
	c, ctx := newClient(t), t.Context()
	require.NoError(t, c.SetSeen(ctx, "bob", epoch.AddDate(-1, 0, 0)))
	for _, body := range []string{"one", "two"} {
		receipt, err := c.Publish(ctx, message.Draft{From: "ann", To: []message.UserID{"bob", "ü"}, Body: body}, "")
		require.NoError(t, err)
		status, err := c.WaitDone(ctx, receipt.ID, 0)
		require.NoError(t, err)
		require.EqualValues(t, 2, status.Fanout.Skipped)
	}
	user, err := c.User(ctx, "bob")
	require.NoError(t, err)
	require.Equal(t, client.Dormant, user.State)

	for _, want := range []client.Login{
		{User: "bob", State: client.Active, Was: client.WasDormant, Recovered: 2},
		{User: "bob", State: client.Active, Was: client.WasActive},
		{User: "ü", State: client.Active, Was: client.WasNew, Recovered: 2},
	} {
		login, err := c.Login(ctx, want.User, client.MaxLoginWait)
		require.NoError(t, err)
		require.Equal(t, want, login)
		encoded, err := json.Marshal(login)
		require.NoError(t, err)
		require.JSONEq(t, fmt.Sprintf(`{"user":%q,"state":"active","was":%q,"recovered":%d}`, want.User, want.Was, want.Recovered), string(encoded))
	}
	page, err := c.Inbox(ctx, "bob", client.InboxOptions{})
	require.NoError(t, err)
	require.Len(t, page.Messages, 2)
	require.True(t, page.Complete)
}

func TestLoginThatIsStillUnderWay(t *testing.T) {
	t.Parallel()
	const answer = `{"user":"bob","state":"rehydrating","was":"dormant"}`
	asked := make(chan string, 1)
	c := fakeServer(t, func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Method + " " + r.URL.String()
		w.WriteHeader(http.StatusAccepted)
		_, _ = fmt.Fprint(w, answer)
	})
	login, err := c.Login(t.Context(), "bob", 1500*time.Millisecond)
	require.NoError(t, err)
	require.Equal(t, client.Login{User: "bob", State: client.Rehydrating, Was: client.WasDormant}, login)
	require.Equal(t, "POST /v1/users/bob/login?wait=1.5s", <-asked)
	encoded, err := json.Marshal(login)
	require.NoError(t, err)
	require.JSONEq(t, answer, string(encoded))
}

func TestLoginWaitsThatAreNotValidAreNotSent(t *testing.T) {
	t.Parallel()
	c := fakeServer(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	for _, wait := range []time.Duration{-1, client.MaxLoginWait + 1} {
		_, err := c.Login(t.Context(), "bob", wait)
		require.ErrorIs(t, err, message.ErrInvalid)
		require.ErrorContains(t, err, "give 0s to 60s")
	}
}

func TestIDsThatAreNotValidAreNotSent(t *testing.T) {
	t.Parallel()
	c := fakeServer(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	for _, user := range []message.UserID{"", ".", "..", "a/b", "a b"} {
		for name, call := range map[string]func() error{
			"follow":  func() error { return c.Follow(t.Context(), "bob", user) },
			"delete":  func() error { return c.Delete(t.Context(), user, message.MaxID) },
			"login":   func() error { _, err := c.Login(t.Context(), user, 0); return err },
			"seen":    func() error { return c.SetSeen(t.Context(), user, epoch) },
			"inbox":   func() error { _, err := c.Inbox(t.Context(), user, client.InboxOptions{}); return err },
			"listing": func() error { _, err := c.Followers(t.Context(), user, "", 0); return err },
		} {
			require.ErrorIs(t, call(), message.ErrInvalid, "%s %q", name, user)
		}
	}
}

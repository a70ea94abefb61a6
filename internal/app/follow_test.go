package app_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/config"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
)

// sent publishes a message, waits until its fan-out is done, and returns its status.
func (w *world) sent(t *testing.T, draft string) (status client.Status) {
	t.Helper()
	var receipt client.Receipt
	w.ask(t, http.MethodPost, "/v1/messages", draft, http.StatusAccepted, &receipt)
	w.done(t, receipt.ID)
	w.ask(t, http.MethodGet, "/v1/messages/"+receipt.ID.String(), "", http.StatusOK, &status)
	return status
}

// inbox returns the ids of the messages in an inbox when it is complete, without viewing it.
func (w *world) inbox(t *testing.T, user string) (ids []message.ID) {
	t.Helper()
	require.Eventually(t, func() bool {
		var page client.InboxPage
		w.ask(t, http.MethodGet, "/v1/users/"+user+"/inbox?peek=true", "", http.StatusOK, &page)
		ids = nil
		for _, m := range page.Messages {
			ids = append(ids, m.ID)
		}
		return page.Complete
	}, time.Minute, 10*time.Millisecond)
	return ids
}

const toFollowers = `{"from":"ann","audience":"followers","body":"hello"}`

// TestFollowCountsAsView lets users follow who were never seen, and one who is dormant. The next message is delivered to them.
func TestFollowCountsAsView(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	early := w.sent(t, `{"from":"cid","to":["ben"],"body":"before"}`)
	require.Equal(t, client.Fanout{State: message.StateDone, Lane: event.Direct, Recipients: 1, Skipped: 1, NeverSeen: 1}, early.Fanout)
	w.ask(t, http.MethodPut, "/v1/users/dan", `{"last_viewed":"2020-01-01T00:00:00Z"}`, http.StatusNoContent, nil)
	before := w.sent(t, `{"from":"cid","to":["dan"],"body":"before"}`)
	require.Equal(t, client.Fanout{State: message.StateDone, Lane: event.Direct, Recipients: 1, Skipped: 1}, before.Fanout)

	for _, user := range []string{"ben", "dan"} {
		w.ask(t, http.MethodPut, "/v1/users/"+user+"/following/ann", "", http.StatusNoContent, nil)
		var state client.User
		w.ask(t, http.MethodGet, "/v1/users/"+user, "", http.StatusOK, &state)
		require.WithinDuration(t, time.Now(), state.LastViewed.Time, time.Hour)
	}
	// The rebuild of a busy machine may take longer than the follow waits. Until then fan-out leaves messages to it.
	w.inbox(t, "ben")
	w.inbox(t, "dan")
	news := w.sent(t, toFollowers)
	require.Equal(t, client.Fanout{State: message.StateDone, Lane: event.Direct, Recipients: 2, Delivered: 2}, news.Fanout)
	require.Equal(t, []message.ID{news.ID, early.ID}, w.inbox(t, "ben"))
	require.Equal(t, []message.ID{news.ID, before.ID}, w.inbox(t, "dan"))

	batch := http.Header{"Content-Type": {client.ContentNDJSON}}
	w.ask(t, http.MethodPost, "/v1/following:batch", `{"follower":"eve","followee":"ann"}`+"\n", http.StatusOK, nil, batch)
	w.ask(t, http.MethodGet, "/v1/users/eve", "", http.StatusNotFound, nil)
	require.Equal(t, int64(1), w.sent(t, toFollowers).Fanout.Skipped, "an import of edges is no view")
}

// TestBlock lets a user block an author. Messages of the author leave them out, also one that names no other user.
func TestBlock(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.see(t, "ben")
	w.see(t, "cid")
	w.ask(t, http.MethodPut, "/v1/users/ben/blocked/ann", "", http.StatusNoContent, nil)
	both := w.sent(t, `{"from":"ann","to":["ben","cid"],"body":"hello"}`)
	require.Equal(t, client.Fanout{State: message.StateDone, Lane: event.Direct, Recipients: 2, Delivered: 1, Skipped: 1, Blocked: 1}, both.Fanout)
	require.Equal(t, []message.UserID{"cid"}, both.To)
	alone := w.sent(t, `{"from":"ann","to":["ben"],"body":"hello"}`)
	require.Equal(t, client.Fanout{State: message.StateDone, Lane: event.Direct, Recipients: 1, Skipped: 1, Blocked: 1}, alone.Fanout)
	require.Empty(t, w.inbox(t, "ben"))
	require.Equal(t, []message.ID{both.ID}, w.inbox(t, "cid"))
}

// TestFollowingMax has users with as many follows, subscriptions and blocks as following.max allows.
func TestFollowingMax(t *testing.T) {
	t.Parallel()
	w, _ := newWorldOf(t, t.TempDir(), func(cfg *config.Config) { cfg.Following.Max = 3 })
	w.ask(t, http.MethodPut, "/v1/topics/news", "", http.StatusCreated, nil)
	w.ask(t, http.MethodPut, "/v1/topics/sports", "", http.StatusCreated, nil)
	for range 2 { // a repetition needs no room
		for _, edge := range []string{"following/ann", "topics/news", "blocked/cid"} {
			w.ask(t, http.MethodPut, "/v1/users/ben/"+edge, "", http.StatusNoContent, nil)
		}
	}
	for _, edge := range []string{"following/dan", "topics/sports", "blocked/dan"} {
		var p client.Problem
		w.ask(t, http.MethodPut, "/v1/users/ben/"+edge, "", http.StatusConflict, &p)
		require.Equal(t, client.ProblemFollowLimit, p.Type)
		require.Contains(t, p.Detail, "ben has 3 follows, subscriptions and blocks, which is the limit (following.max): end some.")
	}
	batch := http.Header{"Content-Type": {client.ContentNDJSON}}
	rejected := func(path, lines string) (rejected []int) {
		var result client.BatchResult
		w.ask(t, http.MethodPost, path, lines, http.StatusOK, &result, batch)
		for _, r := range result.Rejected {
			rejected = append(rejected, r.Line)
		}
		return rejected
	}
	lines := `{"follower":"ben","followee":"dan"}` + "\n" + `{"follower":"eve","followee":"dan"}` + "\n" + `{"follower":"ben","followee":"ann"}` + "\n"
	lines += `{"follower":"eve","followee":"a"}` + "\n" + `{"follower":"eve","followee":"b"}` + "\n" + `{"follower":"eve","followee":"c"}` + "\n"
	require.Equal(t, []int{1, 6}, rejected("/v1/following:batch", lines))
	require.Equal(t, []int{1}, rejected("/v1/subscriptions:batch", `{"user":"eve","topic":"news"}`+"\n"+`{"user":"ben","topic":"news"}`))
	w.ask(t, http.MethodDelete, "/v1/users/ben/following/ann", "", http.StatusNoContent, nil)
	w.ask(t, http.MethodPut, "/v1/users/ben/following/dan", "", http.StatusConflict, nil)
	w.ask(t, http.MethodPut, "/v1/users/ben/following/ann", "", http.StatusNoContent, nil)
}

// TestFollowCountsAsNothing switches following.counts_as_view off. A user who only follows gets the messages at the first look.
func TestFollowCountsAsNothing(t *testing.T) {
	t.Parallel()
	w, _ := newWorldOf(t, t.TempDir(), func(cfg *config.Config) { cfg.Following.CountsAsView = false })
	w.ask(t, http.MethodPut, "/v1/users/ben/following/ann", "", http.StatusNoContent, nil)
	w.ask(t, http.MethodGet, "/v1/users/ben", "", http.StatusNotFound, nil)
	news := w.sent(t, toFollowers)
	require.Equal(t, client.Fanout{State: message.StateDone, Lane: event.Direct, Recipients: 1, Skipped: 1}, news.Fanout)
	w.see(t, "ben")
	require.Equal(t, []message.ID{news.ID}, w.inbox(t, "ben"))
}

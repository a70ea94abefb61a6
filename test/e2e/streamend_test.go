//go:build long

package e2e_test

import (
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/testenv"
)

// TestStreamsEndInOrder sends SIGTERM to a server with 1,000 open streams. They stay open during drain_delay, and still tell what arrives. Then
// they end one after another, each with a time after which its client comes back. The process does not wait for more than that. Clients that come
// back to the next process have missed nothing.
func TestStreamsEndInOrder(t *testing.T) {
	t.Parallel()
	const users, devices, delay, atMost = 50, 20, 3 * time.Second, 5 * time.Second
	ctx := bounded(t, 2*time.Minute)
	w := newWorld(ctx, t, embedded, impatient(map[string]string{
		"stream.per_user": strconv.Itoa(devices), "drain_delay": delay.String(), "drain_timeout": "1m",
	}))
	server := w.site.Start(ctx, t, programs.Fanmail)
	c := w.client()
	streams := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: users * devices}}
	t.Cleanup(streams.CloseIdleConnections)
	var to []message.UserID
	for i := range users {
		to = append(to, reader(i))
		require.NoError(t, c.SetSeen(ctx, reader(i), time.Now()))
	}
	publish := func(body string) message.ID {
		receipt, err := c.Publish(ctx, message.Draft{From: "ann", To: to, Body: body}, "")
		require.NoError(t, err)
		_, err = c.WaitDone(ctx, receipt.ID, 0)
		require.NoError(t, err)
		return receipt.ID
	}
	sent := []message.ID{publish("before")}

	var all []*follower
	var ended []time.Time
	var mu sync.Mutex // guards ended
	var running sync.WaitGroup
	for i := range users * devices {
		f := &follower{site: w.site.URL(), user: to[i%users], http: streams, pages: c}
		all = append(all, f)
		running.Go(func() {
			for f.shown().cursor == "" && ctx.Err() == nil {
				f.note(f.listen(ctx, time.Hour)) // a server that opens this many at once refuses some at first
			}
			mu.Lock()
			defer mu.Unlock()
			ended = append(ended, time.Now())
		})
	}
	haveAll := func() bool {
		return !slices.ContainsFunc(all, func(f *follower) bool { return len(f.shown().held) < len(sent) })
	}
	testenv.Eventually(ctx, t, "all streams have the message", haveAll)
	require.Equal(t, users*devices, w.metric(ctx, "fanmail_streams"))

	begun := time.Now()
	server.Terminate()
	sent = append(sent, publish("while it drains"))
	running.Wait()
	require.Zero(t, server.Code(ctx))
	took := time.Since(begun)
	require.Less(t, took, delay+atMost, "it waits for drain_delay, then 3 s for its streams, and then for nothing else")
	first, last := slices.MinFunc(ended, time.Time.Compare), slices.MaxFunc(ended, time.Time.Compare)
	require.GreaterOrEqual(t, first.Sub(begun), delay, "a stream has ended too early")
	require.Greater(t, last.Sub(first), time.Second, "all clients come back at once")
	t.Logf("%d streams ended after %v to %v, and the process after %v", len(ended), first.Sub(begun), last.Sub(begun), took)
	require.True(t, haveAll(), "a stream was silent while the server drained")

	server = w.site.Start(ctx, t, programs.Fanmail)
	sent = append(sent, publish("after"))
	for _, f := range all {
		require.NoError(t, f.poll(ctx, 0))
		shown := f.shown()
		for _, id := range sent {
			require.Contains(t, shown.held, id)
		}
		require.Equal(t, 1, f.resets, "it has begun anew")
		require.True(t, f.retry >= time.Second && f.retry <= 10*time.Second, "retry: %v", f.retry)
		require.Equal(t, client.Tally{Total: 3, Unread: 3, Unseen: 3}, shown.tally)
	}
	server.Stop(ctx)
}

//go:build long

package e2e_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/testenv"
)

// offsets returns the offsets to which the clocks of the processes are set, one after another. Each process has one of the lists. Edges are
// imported at the second offset. On the embedded store the edges are old, so that a message of a clock that is behind is for the
// followers. On MongoDB a process that is far behind imports no edges and publishes no messages.
func (on store) offsets() [][]time.Duration {
	const early, small, large, most = 45 * time.Second, 30 * time.Second, 20 * time.Minute, time.Hour // clock_tolerance is two minutes
	switch on {
	case apart:
		return [][]time.Duration{
			{0, -early, 0, small, 0, most, 0, 0, 0, -most, 0, large, -small, 0},
			{0, -early, 0, 0, 0, 0, 0, most, 0, 0, 0, large, small, 0},
		}
	case mongoDB:
		return [][]time.Duration{{0, -early, 0, small, 0, most, 0, -most, 0, large, -small, 0}}
	default:
		return [][]time.Duration{{0, -2 * most, 0, small, 0, most, 0, -most, 0, large, -small, 0}}
	}
}

// clockPace returns how many messages are published a second while clocks are set. If it were above what the store can take on two cores, requests would
// time out, and what is sent again would slow down the rest.
func (on store) clockPace() int {
	if on == embedded {
		return 60
	}
	return 15
}

// mayUnfollow reports whether users unfollow in a step: before any clock is far ahead or behind, and when all are right again. While a clock
// is far ahead, the driver waits for the messages of an author before a user unfollows the author. If a clock is behind, a span ends before
// messages that the follower has received, and these messages do not belong in the inbox any more. If the server has gaps, users
// unfollow only before any clock is ahead, because a gap still counts such messages.
func mayUnfollow(lists [][]time.Duration, step int, gaps bool) bool {
	const right, slightlyAhead = 3, 4 // steps
	if gaps {
		return step < right
	}
	return step < slightlyAhead || step == len(lists[0])-1
}

// TestClockIsSet sets the clocks of a running server ahead and back by up to an hour, while messages are published, users follow and unfollow,
// and dormant users return. A message that is refused because the clock is ahead is published again under its key. When the clocks are
// right again, every inbox must be exactly right.
func TestClockIsSet(t *testing.T) {
	t.Parallel()
	limits := map[store][]int{embedded: {0, 5}, mongoDB: {5}, apart: {0}}
	for _, on := range everyStoreAndApart() {
		t.Run(string(on), func(t *testing.T) {
			t.Parallel()
			for _, limit := range limits[on] {
				t.Run("rehydrate.limit "+strconv.Itoa(limit), func(t *testing.T) {
					t.Parallel()
					testClockIsSet(t, on, limit)
				})
			}
		})
	}
}

func testClockIsSet(t *testing.T, on store, limit int) {
	t.Helper()
	ctx, seed := bounded(t, 5*time.Minute), seed(t)
	w := newWorld(ctx, t, on, impatient(map[string]string{
		"rehydrate.limit": strconv.Itoa(limit), "rehydrate.page": "5", "rehydrate.lease": "2s", "rehydrate.reap_every": "500ms",
		"fanout.express_max": "20", "fanout.batch_owners": "40", "mongodb.timeout": "3s",
	}))
	for _, offsets := range on.offsets() {
		w.site.Clocks = append(w.site.Clocks, clockText(offsets))
	}
	w.site.Provoked = append(w.site.Provoked, errClockAhead)
	w.checking = []string{"--rehydrate-limit", strconv.Itoa(limit), "--clocks", filepath.Join(w.dir, "clocks.ndjson")}
	server := w.start(ctx)
	// A script must not be repeated, because its edges change: all mails of the trace suffice for ten minutes at the pace of the feed.
	size := size{pairs: 120, gap: 12 * time.Second, keep: 24 * time.Hour, spread: 90 * time.Minute}
	pairs := w.writeTwins(ctx, size, seed)
	clocks := &clocks{lists: on.offsets(), gaps: limit > 0, server: server.(clockSetter), since: time.Now()}
	clocks.step(ctx)
	w.fanmail(ctx, "import", "follows", w.follows)
	clocks.step(ctx)
	w.fanmail(ctx, "import", "users", w.users)

	lines := w.contents(w.messages)
	feed := w.feed(ctx, lines, on.clockPace())
	// While the clock is ahead, each message occupies a connection. Later lines with edges must be reached.
	driver := w.drive(ctx, "--connections", "256", "--timeout", "20m", "--json")
	roaming := w.roam(ctx, pairs, size, seed)
	w.setTheClocks(ctx, clocks, feed, driver, roaming)
	total := feed.end()
	require.Zero(t, driver.Code(ctx), "publishing failed")
	t.Log(driver.Stdout())
	roaming.Terminate()
	require.Zero(t, roaming.Code(ctx), "roaming failed")
	t.Logf("roamed: %s", strings.TrimSpace(roaming.Stdout()))
	var sum struct{ Accepted, Changed, Ahead int }
	require.NoError(t, json.Unmarshal([]byte(driver.Stdout()), &sum))
	require.Equal(t, total, sum.Accepted+sum.Changed)
	require.Positive(t, sum.Ahead)

	w.awaitFanout(ctx)
	w.everyoneLogsIn(ctx, pairs)
	w.awaitRehydrations(ctx)
	clocks.note(time.Now())
	w.writeLines(filepath.Join(w.dir, "clocks.ndjson"), clocks.log)
	w.requireSoundInboxes(ctx)
	found := w.check(ctx)
	require.Equal(t, sum.Accepted, found.Messages)
	w.requireUnread(ctx, pairs)
	server.Stop(ctx)
}

// errClockAhead is in the log lines about messages that were refused because the clock is ahead.
var errClockAhead = errors.New("the clock of this host is ahead of the store's")

func clockText(offsets []time.Duration) string {
	texts := make([]string, len(offsets))
	for i, offset := range offsets {
		texts[i] = offset.String()
	}
	return strings.Join(texts, ",") + "/signal"
}

// clockSetter is a server whose clocks a test sets.
type clockSetter interface {
	StepClock(ctx context.Context)
	URLs() []string
}

// clocks are the clocks of a server.
type clocks struct {
	server clockSetter
	lists  [][]time.Duration
	gaps   bool // whether the server leaves messages to gaps
	at     int  // the step
	since  time.Time
	log    []map[string]any
}

// step sets the clocks to their next offsets. It logs for the checker which offsets were possible until now.
func (c *clocks) step(ctx context.Context) {
	next := time.Now()
	c.server.StepClock(ctx)
	c.note(time.Now())
	c.at, c.since = c.at+1, next
}

func (c *clocks) note(until time.Time) {
	for _, offsets := range c.lists {
		c.log = append(c.log, map[string]any{"since": c.since, "until": until, "offset": offsets[c.at].String()})
	}
}

// setTheClocks sets the clocks to all of their offsets. Before each change it waits until requests of every kind have been answered.
func (w *world) setTheClocks(ctx context.Context, c *clocks, feed *feed, working ...*testenv.Process) {
	w.Helper()
	for last := len(c.lists[0]) - 1; ; c.step(ctx) {
		feed.calm.Store(!mayUnfollow(c.lists, c.at, c.gaps))
		w.awaitAnswers(ctx, c.server.URLs(), working)
		if c.at == last {
			return
		}
		if mayUnfollow(c.lists, c.at, c.gaps) && !mayUnfollow(c.lists, c.at+1, c.gaps) {
			feed.calm.Store(true)
			testenv.Eventually(ctx, w.T, "every unfollow is done", func() bool {
				return int64(strings.Count(strings.Join(w.contents(w.published), ""), `"unfollow":`)) == feed.unfollows.Load()
			})
		}
	}
}

// awaitAnswers waits until a server has answered more requests of every kind, whatever the answers are.
func (w *world) awaitAnswers(ctx context.Context, urls []string, working []*testenv.Process) {
	w.Helper()
	target := w.answers(ctx, urls)
	for route, more := range map[string]int{"POST /v1/messages": 10, "POST /v1/following:batch": 1, "GET /v1/users/{user}/inbox": 10, "POST /v1/users/{user}/login": 1} {
		target[route] += more
	}
	testenv.Eventually(ctx, w.T, "requests are answered", func() bool {
		for _, p := range working {
			require.True(w, p.Running(), p.Stderr())
		}
		now := w.answers(ctx, urls)
		for route, wanted := range target {
			if now[route] < wanted {
				return false
			}
		}
		return true
	})
}

// answers returns the number of answers of a server by method and route.
func (w *world) answers(ctx context.Context, urls []string) map[string]int {
	w.Helper()
	counts := make(map[string]int)
	for _, url := range urls {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/metrics", http.NoBody)
		require.NoError(w, err)
		once := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		answer, err := once.Do(request)
		require.NoError(w, err)
		for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
			var class, method, route string
			var n int
			if _, err := fmt.Sscanf(lines.Text(), "fanmail_http_requests_total{class=%q,method=%q,route=%q} %d", &class, &method, &route, &n); err == nil {
				counts[method+" "+route] += n
			}
		}
		require.NoError(w, answer.Body.Close())
	}
	return counts
}

// awaitFanout waits until the fan-out of every accepted message is done. Fan-out may leave a message to a gap, which is then counted again.
func (w *world) awaitFanout(ctx context.Context) {
	w.Helper()
	c := w.client()
	for _, line := range w.contents(w.published) {
		var m struct{ ID message.ID }
		require.NoError(w, json.Unmarshal([]byte(line), &m))
		if !m.ID.IsZero() {
			_, err := c.WaitDone(ctx, m.ID, 0)
			require.NoError(w, err)
		}
	}
}

// awaitRehydrations waits until no rehydration is due or under way.
func (w *world) awaitRehydrations(ctx context.Context) {
	w.Helper()
	testenv.Eventually(ctx, w.T, "everything comes to rest", func() bool {
		_, _, summary := w.audit(ctx)
		return summary.Rehydrating == 0
	})
}

// writeLines writes values to a file, one JSON object a line.
func (w *world) writeLines(path string, values []map[string]any) {
	w.Helper()
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	for _, value := range values {
		require.NoError(w, encoder.Encode(value))
	}
	w.write(path, text.String())
}

// requireUnread marks a part of each inbox of the pairs as read, and requires that the others are counted as unread.
func (w *world) requireUnread(ctx context.Context, pairs string) {
	w.Helper()
	c := w.client()
	for _, line := range w.contents(pairs) {
		for user := range strings.SplitSeq(strings.TrimSpace(line), "\t") {
			page, err := c.Inbox(ctx, message.UserID(user), client.InboxOptions{})
			require.NoError(w, err)
			if len(page.Messages) == 0 {
				continue
			}
			newer := len(page.Messages) / 2
			require.NoError(w, c.MarkRead(ctx, message.UserID(user), page.Messages[newer].ID))
			again, err := c.Inbox(ctx, message.UserID(user), client.InboxOptions{Limit: 1})
			require.NoError(w, err)
			require.Equal(w, []int64{page.Total, int64(newer)}, []int64{again.Total, again.Unread}, user)
		}
	}
}

//go:build long

package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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

// TestClockIsSet sets the clocks of a running server ahead and back by up to an hour, while messages are published and users return. A message that is refused because the clock is ahead is published again under its key. When the clocks are
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
	ctx := bounded(t, 5*time.Minute)
	w := newWorld(ctx, t, on, impatient(map[string]string{
		"rehydrate.limit": strconv.Itoa(limit), "rehydrate.page": "5", "rehydrate.lease": "2s", "rehydrate.reap_every": "500ms",
		"fanout.direct_max": "20", "fanout.batch_owners": "40", "mongodb.timeout": "3s",
	}))
	for _, offsets := range on.offsets() {
		w.site.Clocks = append(w.site.Clocks, clockText(offsets))
	}
	w.site.Provoked = append(w.site.Provoked, errClockAhead)
	w.checking = []string{"--rehydrate-limit", strconv.Itoa(limit), "--clocks", filepath.Join(w.dir, "clocks.ndjson")}
	server := w.start(ctx)
	w.mixedTrace(ctx)
	clocks := &clocks{lists: on.offsets(), server: server.(clockSetter), since: time.Now()}
	clocks.step(ctx)
	w.fanmail(ctx, "import", "follows", w.follows)
	clocks.step(ctx)
	w.fanmail(ctx, "import", "users", w.users)

	feed := w.feed(ctx, w.contents(w.messages), on.clockPace())
	// While the clock is ahead, each message occupies a connection.
	driver := w.drive(ctx, "--connections", "256", "--timeout", "20m", "--json")
	w.setTheClocks(ctx, clocks, feed, driver)
	total := feed.end()
	require.Zero(t, driver.Code(ctx), "publishing failed")
	t.Log(driver.Stdout())
	var sum struct{ Accepted, Ahead int }
	require.NoError(t, json.Unmarshal([]byte(driver.Stdout()), &sum))
	require.Equal(t, total, sum.Accepted)
	require.Positive(t, sum.Ahead)

	w.awaitFanout(ctx)
	require.Zero(t, w.comeBack(ctx).Code(ctx), "coming back failed")
	w.awaitRehydrations(ctx)
	clocks.note(time.Now())
	w.writeLines(filepath.Join(w.dir, "clocks.ndjson"), clocks.log)
	w.requireSoundInboxes(ctx)
	found := w.check(ctx)
	require.Equal(t, sum.Accepted, found.Messages)
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
	at     int // the step
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

// messagesPerOffset is the most that is published between two changes. A store that keeps up gets fewer: 100 to 220 on average.
const messagesPerOffset = 250

// setTheClocks sets the clocks to all of their offsets, while users return again and again. Before each change it waits until requests of every
// kind have been answered.
func (w *world) setTheClocks(ctx context.Context, c *clocks, feed *feed, driver *testenv.Process) {
	w.Helper()
	comeBack := func() *testenv.Process { return w.comeBack(ctx, "--pace", "20") }
	back := comeBack()
	for last := len(c.lists[0]) - 1; ; c.step(ctx) {
		feed.pauseAfter(messagesPerOffset)
		target := w.answers(ctx, c.server.URLs())
		for route, more := range map[string]int{"POST /v1/messages": 10, "GET /v1/users/{user}/inbox": 10, "POST /v1/users/{user}/login": 1} {
			target[route] += more
		}
		testenv.Eventually(ctx, w.T, "requests are answered", func() bool {
			require.True(w, driver.Running(), driver.Stderr())
			if !back.Running() {
				require.Zero(w, back.Code(ctx), "coming back failed")
				back = comeBack()
			}
			now := w.answers(ctx, c.server.URLs())
			for route, wanted := range target {
				if now[route] < wanted {
					return false
				}
			}
			return true
		})
		if c.at == last {
			require.Zero(w, back.Code(ctx), "coming back failed")
			return
		}
	}
}

// answers returns the number of answers of a server by method and route.
func (w *world) answers(ctx context.Context, urls []string) map[string]int {
	w.Helper()
	counts := make(map[string]int)
	for _, url := range urls {
		for _, line := range w.measured(ctx, url) {
			var class, method, route string
			var n int
			if _, err := fmt.Sscanf(line, "fanmail_http_requests_total{class=%q,method=%q,route=%q} %d", &class, &method, &route, &n); err == nil {
				counts[method+" "+route] += n
			}
		}
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

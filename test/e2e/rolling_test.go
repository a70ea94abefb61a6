//go:build long && mongodb

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/natsbus"
	"github.com/fanmail/fanmail/test/testenv"
)

// heldFor is the lease of a task on the bus. It is so long that the test fails if a stopping worker does not return its tasks.
const heldFor = 5 * time.Minute

// TestRollingRestart replaces seven processes, one after another, while messages are published, users return and inboxes are read.
// The clients use a load balancer that follows /readyz. No client is refused or has to repeat a request. Every process reports that
// it is stopping before it stops listening. No task waits until a lease expires. At the end every inbox is exactly right.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	rounds, pace := 1, 20
	if full() {
		rounds, pace = 5, 40 // which the store takes beside other tests: it refuses requests when it is behind
	}
	ctx := bounded(t, 10*time.Minute)
	w := newWorld(ctx, t, apart, map[string]string{
		"partitions": "4", "fanout.direct_max": "20", "fanout.medium_max": "80", "fanout.batch_owners": "20", // so that scans need several batches
		"nats.ack_wait": heldFor.String(),
		"drain_delay":   "10s", // longer than a probe on a busy machine needs to notice that a process is stopping
	})
	w.site.Probe = 50 * time.Millisecond
	roles := w.site.StartApart(ctx, t, w.programs)
	messages := w.smallTown()
	w.fanmail(ctx, "import", "users", w.users)
	w.fanmail(ctx, "import", "follows", w.follows)

	queue := watchQueue(ctx, t, roles.NATS())
	feed := w.feed(ctx, messages, pace)
	driver := w.drive(ctx, "--json")
	back := w.comeBack(ctx, "--file", w.users, "--pace", "10", "--json")
	testenv.Eventually(ctx, t, "messages are being accepted", func() bool { return w.accepted() > pace })
	for range rounds {
		before := w.accepted()
		roles.RestartEach(ctx, w.programs, func(r testenv.Restart) {
			accepted := w.accepted()
			t.Logf("%s; %d messages accepted meanwhile, no task older than %d ms", r, accepted-before, queue.oldest().Milliseconds())
			require.Greater(t, accepted, before, "the load is gone")
			before = accepted
			requireInOrder(t, r)
			if !back.Running() {
				w.requireServed(ctx, back)
				back = w.comeBack(ctx, "--file", w.users, "--pace", "10", "--json")
			}
		})
	}
	published := feed.end()
	require.Empty(t, roles.Unanswered())
	w.requireServed(ctx, driver)
	w.requireServed(ctx, back)
	require.Equal(t, published, w.check(ctx).Messages)
	w.requireSoundInboxes(ctx)
	require.Less(t, queue.max(), heldFor/2, "a task has waited for a lease to run out")
	t.Logf("%d messages in %d rounds of restarts; no task was ever older than %d ms", published, rounds, queue.max().Milliseconds())
	roles.Stop(ctx)
}

// requireInOrder requires that a process reported that it was stopping before it stopped answering, and that its successor became
// ready.
func requireInOrder(t *testing.T, r testenv.Restart) {
	t.Helper()
	want := []testenv.Readiness{testenv.Stopping, testenv.Away, testenv.Ready}
	var said []testenv.Readiness
	for _, probe := range r.Said {
		if slices.Contains(want, probe.Readiness) { // the states between may be too short for a probe
			said = append(said, probe.Readiness)
		}
	}
	require.Equal(t, want, said, r.Role)
}

// requireServed waits for the end of a driver, and requires that the first try of every request had the expected answer.
func (w *world) requireServed(ctx context.Context, driver *testenv.Process) {
	w.Helper()
	require.Zero(w, driver.Code(ctx), "%s", driver.Stderr())
	var summary struct{ Accepted, Users, Busy, Broken int }
	require.NoError(w, json.Unmarshal([]byte(driver.Stdout()), &summary))
	w.Logf("driver: %s", driver.Stdout())
	require.Positive(w, summary.Accepted+summary.Users)
	require.Zero(w, summary.Busy, "requests were refused")
	require.Zero(w, summary.Broken, "requests were not answered")
}

// smallTown imports users, a third of them dormant. Two have followers: enough for the bulk lane and for the medium lane. It
// returns their messages.
func (w *world) smallTown() (messages []string) {
	w.Helper()
	const citizens = 120
	var users, follows strings.Builder
	for i := range citizens {
		seen := time.Now()
		if i%3 == 0 {
			seen = seen.AddDate(0, -3, 0)
		}
		fmt.Fprintf(&users, "{\"user\":\"c%d\",\"last_viewed\":%q}\n", i, seen.UTC().Format(time.RFC3339))
		fmt.Fprintf(&follows, "c%d\tmayor\n", i)
		if i%2 == 0 {
			fmt.Fprintf(&follows, "c%d\tbaker\n", i)
		}
		messages = append(messages, fmt.Sprintf("{\"from\":\"c%d\",\"to\":[\"c%d\",\"c%d\"],\"body\":\"hello\"}\n", i, (i+1)%citizens, i*7%citizens))
		switch i % 6 {
		case 0:
			messages = append(messages, "{\"from\":\"mayor\",\"audience\":\"followers\",\"body\":\"to everybody\"}\n")
		case 3:
			messages = append(messages, "{\"from\":\"baker\",\"audience\":\"followers\",\"body\":\"to every other one\"}\n")
		}
	}
	w.users, w.follows = filepath.Join(w.dir, "users.ndjson"), filepath.Join(w.dir, "follows.tsv")
	w.write(w.users, users.String())
	w.write(w.follows, follows.String())
	return messages
}

// queueWatch measures how long tasks and published events have been on the bus.
type queueWatch struct {
	mu          sync.Mutex
	recent, all time.Duration
}

// watchQueue watches the streams of a NATS server until the test ends.
func watchQueue(ctx context.Context, t *testing.T, url string) *queueWatch {
	t.Helper()
	nc, err := nats.Connect(url)
	require.NoError(t, err)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	q := new(queueWatch)
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(50 * time.Millisecond)
		defer ticker.Stop()
		for ctx.Err() == nil {
			select {
			case <-ticker.C:
				for _, name := range []string{natsbus.PublishedStream, natsbus.FanoutStream} {
					q.look(ctx, js, name)
				}
			case <-ctx.Done():
			}
		}
	}()
	t.Cleanup(func() {
		stop()
		<-ended
		nc.Close()
	})
	return q
}

// look reads the age of the first message of a stream.
func (q *queueWatch) look(ctx context.Context, js jetstream.JetStream, name string) {
	stream, err := js.Stream(ctx, name)
	if err != nil || stream.CachedInfo().State.Msgs == 0 {
		return // the next look reads it again
	}
	age := time.Since(stream.CachedInfo().State.FirstTime)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.recent, q.all = max(q.recent, age), max(q.all, age)
}

// oldest returns the greatest age since the last call.
func (q *queueWatch) oldest() time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	age := q.recent
	q.recent = 0
	return age
}

// max returns the greatest age of all looks.
func (q *queueWatch) max() time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.all
}

package fanout_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

// logged makes the stages log slow fan-outs, and returns what reads and forgets the lines at the level info.
func (w *world) logged(t *testing.T) func() (lines []map[string]any) {
	t.Helper()
	log := new(bytes.Buffer)
	w.opts.Logger, w.opts.SlowAfter = zerolog.New(zerolog.SyncWriter(log)).Level(zerolog.InfoLevel), 10*time.Second
	w.opts.Waits = progress.Waits{Lease: 30 * time.Second, ResumeAfter: rig.ResumeAfter}
	return func() (lines []map[string]any) {
		for decoder := json.NewDecoder(log); decoder.More(); {
			var line map[string]any
			require.NoError(t, decoder.Decode(&line))
			lines = append(lines, line)
		}
		return lines
	}
}

func TestSlowFanOutIsLogged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	lines := w.logged(t)
	users := usersOf(0, rig.DirectMax+1)
	w.see(t, users...)
	quick, direct, planned := w.store(t, 1, "author", users[0]), w.store(t, 2, "author", users[0]), w.store(t, 3, "ann", users...)
	w.publish(t, quick)
	w.drain(t)
	require.Empty(t, lines())
	w.plan(t, event.Medium, []int{0}, planned)
	w.Clock.Advance(10*time.Second - time.Millisecond)
	resumer := w.resumer()
	look := func() []map[string]any {
		_, err := resumer.Resume(t.Context())
		require.NoError(t, err)
		return lines()
	}
	require.Empty(t, look())
	w.Clock.Advance(5 * time.Second)
	standing := map[string]any{
		"level": "info", "message": "a fan-out stands still", "message_id": direct.ID.String(), "from": "author", "lane": "", "partitions": []any{},
		"since_sent": "14.997s", "stands_still": "14.997s", "delivered": 0.0, "skipped": 0.0, "waiting_for": "router",
	}
	second := map[string]any{
		"level": "info", "message": "a fan-out stands still", "message_id": planned.ID.String(), "from": "ann", "lane": "medium", "partitions": []any{0.0},
		"since_sent": "14.996s", "stands_still": "14.999s", "delivered": 0.0, "skipped": 0.0, "waiting_for": "worker",
	}
	require.Equal(t, []map[string]any{standing, second}, look())
	require.Empty(t, look(), "once for each standstill")
	w.put(t, planned, 0, progress.Scan{Joined: true})
	require.Empty(t, look(), "it has moved")
	w.Clock.Advance(20 * time.Second)
	again := look()
	require.Len(t, again, 1)
	require.Equal(t, "lost-worker", again[0]["waiting_for"])
	w.publish(t, direct)
	w.drain(t)
	ended := lines()
	require.Len(t, ended, 2)
	require.Equal(t, map[string]any{
		"level": "info", "message": "message is done", "message_id": direct.ID.String(), "from": "author", "lane": "direct", "took": "34.997s",
		"delivered": 1.0, "skipped": 0.0, "given_up": 0.0,
	}, ended[0])
	require.Equal(t, []any{planned.ID.String(), "medium", float64(len(users))}, []any{ended[1]["message_id"], ended[1]["lane"], ended[1]["delivered"]})
	w.opts.SlowAfter = 0
	w.store(t, 4, "author", users[0])
	w.Clock.Advance(time.Minute)
	resumer = w.resumer()
	require.Empty(t, look())
}

// What is routed again is logged once for each message.
func TestMessageThatIsRoutedAgainIsLoggedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	lines := w.logged(t)
	w.opts.SlowAfter = 0
	m := w.store(t, 1, "author", usersOf(0, 2)...)
	resumer := w.resumer()
	for range 2 {
		require.Equal(t, 1, w.resume(t, resumer))
		require.NoError(t, w.Bus.Lose(t.Context(), "FANMAIL_PUBLISHED", 0))
	}
	logged := lines()
	require.Len(t, logged, 1)
	require.Equal(t, []any{"message has not moved: emitting it again", m.ID.String(), "5m0.999s"}, []any{logged[0]["message"], logged[0]["message_id"], logged[0]["stands_still"]})
}

// handedOut is a task that the bus has handed out so often.
type handedOut struct {
	bus.Held
	attempts int
	stored   time.Time
}

func (h handedOut) First() event.Delivery {
	first := h.Held.First()
	first.Attempts, first.Stored = h.attempts, h.stored
	return first
}

// A task of a lost worker is logged once for each message. A first attempt is not, nor what was handed back within the lease.
func TestTakeoverIsLogged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	lines := w.logged(t)
	w.opts.SlowAfter = 0
	d := w.deliverer()
	m := w.store(t, 1, "author", usersOf(0, 2)...)
	for _, test := range []struct {
		attempts int
		age      time.Duration
		want     int
	}{{1, time.Minute, 0}, {2, 29 * time.Second, 0}, {2, 30 * time.Second, 1}, {3, time.Minute, 0}} {
		w.emit(t, event.Bulk, 0, m)
		require.NoError(t, d.Deliver(t.Context(), handedOut{w.take(t, event.Bulk, 0), test.attempts, w.Clock.Now().Add(-test.age)}))
		logged := lines()
		require.Len(t, logged, test.want)
		for _, line := range logged {
			require.Equal(t, []any{"a worker has not finished its task: this one takes it over", m.ID.String(), "author", "bulk", 0.0, 2.0, "30s"},
				[]any{line["message"], line["message_id"], line["from"], line["lane"], line["partition"], line["attempts"], line["after"]})
		}
	}
}

//go:build long

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/testenv"
)

// wrongClocks are the clocks of the processes in tests of faults: up to a minute apart. Some of them jump.
var wrongClocks = []string{"0s", "30s", "-30s", "25s,-25s/3s"}

// earlyClock is the clock of the processes that import the edges, so that every message is sent after the edges.
var earlyClock = []string{"-30s"}

// checkingWrongClocks are the arguments of the checker for these clocks.
var checkingWrongClocks = []string{"--clocks-apart", "30s", "--settled-after", "5m"}

// fault is a fault that a test inflicts.
type fault struct {
	name string
	// often is the weight of the fault in the random choice.
	often   int
	inflict func(ctx context.Context)
}

// faultsAndMessages returns the number of faults, and the number of accepted messages between two faults.
func faultsAndMessages() (faults, messages int) {
	if full() {
		return 30, 500
	}
	return 8, 80
}

// underFire inflicts faults while messages are published and users return. It inflicts each fault at least once. The next fault
// follows when enough messages were accepted since the last one, or when publishing has ended.
func (w *world) underFire(ctx context.Context, faults []fault, working ...*testenv.Process) {
	w.Helper()
	busy := func() bool { return slices.ContainsFunc(working, (*testenv.Process).Running) }
	var drawn []int
	for i, f := range faults {
		for range f.often {
			drawn = append(drawn, i)
		}
	}
	most, between := faultsAndMessages()
	inflicted := make(map[string]int)
	for n := 0; n < len(faults) || n < most && busy(); n++ {
		target := w.accepted() + between
		testenv.Eventually(ctx, w.T, "more messages are accepted", func() bool { return w.accepted() >= target || !working[0].Running() })
		f := faults[n%len(faults)]
		if n >= len(faults) {
			f = faults[drawn[rand.IntN(len(drawn))]]
		}
		w.Logf("%s: %d messages accepted", f.name, w.accepted())
		f.inflict(ctx)
		inflicted[f.name]++
	}
	w.Logf("faults: %v", inflicted)
}

// emitAgain emits the events of some accepted messages again, as new events.
func (w *world) emitAgain(ctx context.Context, url string) {
	w.Helper()
	text, err := os.ReadFile(w.published)
	require.NoError(w, err)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	nc, err := nats.Connect(url)
	if err != nil {
		return // a fault is killing the server
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	require.NoError(w, err)
	const again = 200
	for range min(again, len(lines)) {
		var m struct {
			ID   message.ID     `json:"id"`
			From message.UserID `json:"from"`
		}
		if json.Unmarshal([]byte(lines[rand.IntN(len(lines))]), &m) != nil || m.ID.IsZero() {
			continue // the driver is writing the line
		}
		data, err := event.NewPublished(message.Ref{From: m.From, ID: m.ID}).Encode()
		require.NoError(w, err)
		if _, err := js.Publish(ctx, "fanmail.v1.published", data); err != nil {
			return // a fault is killing the server
		}
	}
}

// addStars adds users with many followers to the graph.
func (w *world) addStars(stars, fans int) {
	w.Helper()
	var edges strings.Builder
	for _, line := range w.recorded(filepath.Base(w.follows)) {
		edges.WriteString(line)
	}
	for fan := range fans {
		for star := range stars {
			fmt.Fprintf(&edges, "fan-%05d\tstar-%d\n", fan, star)
		}
	}
	w.follows = filepath.Join(w.dir, "stars.tsv")
	w.write(w.follows, edges.String())
}

// TestUnderFire kills the server, freezes it for longer than the lease of its work, starts it with wrong and jumping clocks, and
// repeats events. Meanwhile users return. At the end every inbox must be exactly right.
func TestUnderFire(t *testing.T) {
	t.Parallel()
	const lease = 2 * time.Second
	ctx := bounded(t, 15*time.Minute)
	listen := "127.0.0.1:" + testenv.FreePort(t)
	w := newWorld(ctx, t, embedded, impatient(map[string]string{
		"fanout.direct_max": "20", "fanout.batch_owners": "400", "nats.listen": listen,
	}))
	w.detectRaces()
	w.site.Settings["nats.ack_wait"] = lease.String()
	w.site.Clocks, w.checking = earlyClock, checkingWrongClocks
	w.site.Provoked = append(w.site.Provoked, bus.ErrUnavailable) // a bus that is frozen together with its caller
	server := w.site.Start(ctx, t, w.programs.Fanmail)
	if full() {
		w.follows = w.testdata(recordedGraph)
		w.addStars(3, 20_000)
	}
	total := w.mixedTrace(ctx)
	w.fanmail(ctx, "import", "users", w.users)
	w.fanmail(ctx, "import", "follows", w.follows)
	w.site.Clocks = wrongClocks

	driver := w.drive(ctx, "--connections", "32", "--timeout", "45m", "--pace", "400")
	back := w.comeBack(ctx, "--pace", "20")
	w.underFire(ctx, []fault{
		{"the server is killed, and started with another clock", 2, func(ctx context.Context) {
			server.Kill()
			server.RequireSound()
			server = w.site.Start(ctx, t, w.programs.Fanmail)
		}},
		{"the server is frozen", 1, func(context.Context) {
			server.Freeze()
			time.Sleep(lease * 3 / 2)
			server.Thaw()
		}},
		{"events are emitted again", 1, func(ctx context.Context) { w.emitAgain(ctx, "nats://"+listen) }},
		{"the server is stopped in order", 1, func(ctx context.Context) {
			server.Stop(ctx)
			server = w.site.Start(ctx, t, w.programs.Fanmail)
		}},
	}, driver, back)
	require.Zero(t, driver.Code(ctx), "publishing failed")
	t.Log(driver.Stdout())
	require.Zero(t, back.Code(ctx), "coming back failed")
	// A user's look is not synced. A crash may make the user dormant again; then only their next look finds the missed messages.
	require.Zero(t, w.comeBack(ctx).Code(ctx), "coming back again failed")
	require.Equal(t, total, w.check(ctx).Messages)
	w.requireSoundInboxes(ctx)
	server.Stop(ctx)
}

// comeBack starts to let the users of the mail trace return.
func (w *world) comeBack(ctx context.Context, args ...string) *testenv.Process {
	w.Helper()
	log := filepath.Join(w.dir, fmt.Sprintf("logins-%d.ndjson", len(w.logins)))
	w.logins = append(w.logins, log)
	args = append([]string{
		"login", "--server", w.site.URL(), "--file", w.testdata("email-eu.last-seen.tsv"),
		"--log", log, "--by", "either", "--connections", "4", "--timeout", "45m",
	}, args...)
	return testenv.Exec(ctx, w.T, nil, programs.Driver, args...)
}

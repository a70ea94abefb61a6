//go:build older

package main

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
	"github.com/fanmail/fanmail/test/testenv"
)

// subscribers are the dormant users who subscribe, in pairs: both log in at the earlier rehydrator, which is frozen at once.
const subscribers = 12

// The dormant users who log in at the earlier rehydrator after it was thawed.
var (
	reader = dormant(12) // is subscribed to a topic, and follows nobody
	named  = dormant(13) // is subscribed to none, and some messages to topics name this user
	fan    = dormant(14) // is subscribed to none, and follows the author of messages to topics and followers
)

// TestFrozenDuringUpgrade freezes a fan-out worker and a rehydrator of an earlier release amid their work, for the minute until "admin
// upgrade" no longer counts them. Then users subscribe to topics, and messages to topics are published: some are delivered while the two are
// frozen, some have tasks on the bus, some have none yet. The two are thawed while no process of this release could take that work.
//
// They must refuse all of it: no scan moves, no message is finished, no inbox has a new entry, no returning user is settled, nothing becomes
// a dead letter. This release then delivers everything exactly once.
func TestFrozenDuringUpgrade(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	w := newFrozen(ctx, t)
	oldWorker, oldRehydrator := w.start(ctx, w.older("fanout-worker")), w.start(ctx, w.older("rehydrator"))
	publisher, rehydrator := w.start(ctx, w.programs.Publisher), w.start(ctx, w.programs.Rehydrator)
	w.begin(ctx, publisher, oldRehydrator)

	w.publish(ctx, publisher, w.ordinary(30))
	w.await(ctx, publisher)
	t.Logf("the earlier worker alone has delivered %d entries", delivered(ctx, t, oldWorker.site))
	marked := w.freezeRehydrator(ctx, oldRehydrator)
	w.freezeWorker(ctx, oldWorker, publisher)

	worker := w.start(ctx, w.programs.FanoutWorker)
	w.await(ctx, publisher) // it takes over from the frozen one
	upgrade(ctx, t, w.programs.Fanmail, rehydrator.site)
	require.Equal(t, marked, w.those(ctx, marked, isMarked), "a rehydration of the frozen process has ended")
	w.subscribe(ctx, publisher)
	w.publish(ctx, publisher, w.topical(12))
	w.await(ctx, publisher)
	worker.Stop(ctx)
	rehydrator.Stop(ctx)

	// This worker plans messages and emits their tasks. It dies before its first append.
	tasked := w.publish(ctx, publisher, w.topical(24))
	planner := w.start(ctx, w.programs.Faulty, "-role", "fanout-worker", "-at", "append", "-when", "before")
	testenv.Eventually(ctx, t, "the planner has died", func() bool { return !planner.Running() })
	unrouted := w.publish(ctx, publisher, w.topical(12))
	before := w.scans(ctx, tasked)
	require.NotEmpty(t, before, "no message has a plan")

	oldWorker.Thaw()
	oldRehydrator.Thaw()
	returning := slices.Concat(marked, []message.UserID{reader, named, fan})
	w.requireRefused(ctx, oldWorker, oldRehydrator, returning)
	require.Equal(t, before, w.scans(ctx, tasked), "a scan has moved")
	require.Empty(t, w.scans(ctx, unrouted), "a message was planned")
	held := slices.Concat(tasked, unrouted)
	require.Equal(t, held, w.unfinished(ctx), "a message was finished")
	require.Zero(t, w.entries(ctx, held), "a message was appended")
	require.Equal(t, returning, w.those(ctx, returning, userstate.State.Rehydrating), "a user was settled")
	t.Logf("%d messages with open scans, %d without a plan, %d rehydrations under way: refused by the earlier release", len(before), len(held)-len(before), len(returning))

	server := w.start(ctx, w.programs.Fanmail, "serve")
	w.publish(ctx, server, w.topical(12))
	oldWorker.Kill()
	oldRehydrator.Kill()
	w.await(ctx, server)
	w.check(ctx, server)
	publisher.Stop(ctx)
	server.Stop(ctx)
}

// process is a running program with a client of its own.
type process struct {
	*testenv.Server
	site   *testenv.Site
	client *client.Client
}

func (w *frozen) start(ctx context.Context, program string, args ...string) *process {
	w.Helper()
	settings := maps.Clone(w.settings)
	switch program {
	case w.older("rehydrator"): // it takes so long that it can be frozen amid its work
		settings["rehydrate.page"], settings["rehydrate.workers"] = "2", "1"
	case w.programs.Rehydrator: // it looks for abandoned rehydrations only when it starts
		settings["rehydrate.reap_every"] = "1h"
	case w.programs.Faulty: // its first append is for a task
		settings["fanout.head_starts"] = "false"
	}
	site := testenv.NewSite(w.T, settings)
	return &process{site.StartProgram(ctx, w.T, program, args...), site, newClient(w.T, site)}
}

// begin makes users, of whom some are dormant, and edges. It writes them for the checker, too.
func (w *frozen) begin(ctx context.Context, publisher, rehydrator *process) {
	w.Helper()
	var (
		views          []client.Seen
		pairs          []follow.Pair
		users, follows strings.Builder
	)
	for i, user := range fans() {
		seen := time.Now().UTC().Truncate(time.Millisecond)
		if i >= actives {
			seen = longAgo
		}
		if i < actives+dormants {
			views = append(views, client.Seen{User: user, LastViewed: seen})
			fmt.Fprintf(&users, "{\"user\":%q,\"last_viewed\":%q}\n", user, seen.Format(time.RFC3339Nano))
		}
		if user == reader {
			continue
		}
		pairs = append(pairs, follow.Pair{Follower: user, Followee: star.Source()})
		fmt.Fprintf(&follows, "%s\t%s\n", user, star)
	}
	w.write(w.users, users.String())
	w.write(w.follows, follows.String())
	_, err := rehydrator.client.SetSeenBatch(ctx, views)
	require.NoError(w, err)
	_, err = publisher.client.FollowBatch(ctx, pairs)
	require.NoError(w, err)
}

// isMarked reports whether a rehydration has not begun its last part, which reads the edges of the user again.
func isMarked(st userstate.State) bool { return st.Mark != nil }

// freezeRehydrator freezes the earlier rehydrator while it rebuilds inboxes, and returns the users who wait for that.
func (w *frozen) freezeRehydrator(ctx context.Context, rehydrator *process) (marked []message.UserID) {
	w.Helper()
	for i := 0; i < subscribers && len(marked) == 0; i += 2 {
		pair := []message.UserID{dormant(i), dormant(i + 1)}
		rehydrator.Thaw()
		for _, user := range pair {
			w.logIn(ctx, rehydrator, user)
		}
		rehydrator.Freeze()
		marked = w.those(ctx, pair, isMarked)
	}
	require.NotEmpty(w, marked, "each rehydration had ended before")
	return marked
}

// freezeWorker freezes the earlier worker while it delivers messages.
func (w *frozen) freezeWorker(ctx context.Context, worker, publisher *process) {
	w.Helper()
	for len(w.unfinished(ctx)) == 0 {
		worker.Thaw()
		w.publish(ctx, publisher, w.ordinary(30))
		worker.Freeze()
	}
	w.Logf("the earlier worker is frozen with %d unfinished messages", len(w.unfinished(ctx)))
}

// logIn lets a user return, and does not wait for the inbox.
func (w *frozen) logIn(ctx context.Context, rehydrator *process, user message.UserID) {
	w.Helper()
	_, err := rehydrator.client.Login(ctx, user, time.Millisecond)
	require.NoError(w, err)
	w.write(w.unlogged, w.read(w.unlogged)+string(user)+"\n")
}

// subscribe creates topics as soon as the publisher knows the new level, and subscribes active and dormant users.
func (w *frozen) subscribe(ctx context.Context, publisher *process) {
	w.Helper()
	testenv.Eventually(ctx, w.T, "the publisher knows the level", func() bool {
		_, err := publisher.client.CreateTopicBatch(ctx, topics)
		return err == nil
	})
	var lines strings.Builder
	line := func(user message.UserID, topic message.Topic) {
		fmt.Fprintf(&lines, "{\"subscribe\":[{\"user\":%q,\"topic\":%q}]}\n", user, topic)
	}
	for i, user := range fans() {
		if user == named || user == fan {
			continue
		}
		line(user, topics[i%len(topics)])
		if i%5 == 0 { // some messages reach this user by two topics
			line(user, topics[(i+1)%len(topics)])
		}
	}
	require.Empty(w, w.publish(ctx, publisher, lines.String()))
}

// topics are a tree, and one beside it.
var topics = []message.Topic{
	message.ParseTopic("news"), message.ParseTopic("news/sport"), message.ParseTopic("news/sport/chess"), message.ParseTopic("art"),
}

// ordinary returns messages without topics.
func (w *frozen) ordinary(count int) string {
	var lines strings.Builder
	for range count {
		w.drafts++
		if w.drafts%4 == 0 {
			fmt.Fprintf(&lines, "{\"from\":%q,\"to\":[%q,%q],\"body\":\"verse %d\"}\n", poet, active(w.drafts%actives), dormant(w.drafts%dormants), w.drafts)
			continue
		}
		fmt.Fprintf(&lines, "{\"from\":%q,\"audience\":\"followers\",\"body\":\"news %d\"}\n", star, w.drafts)
	}
	return lines.String()
}

// topical returns messages to topics, of which some also go to followers or name users.
func (w *frozen) topical(count int) string {
	var lines strings.Builder
	for range count {
		w.drafts++
		to := []string{"", `"audience":"followers",`, fmt.Sprintf(`"to":[%q,%q],`, named, active(w.drafts%actives))}[w.drafts%3]
		fmt.Fprintf(&lines, "{\"from\":%q,%s\"topics\":[%q],\"body\":\"topical %d\"}\n", star, to, topics[w.drafts%len(topics)], w.drafts)
	}
	return lines.String()
}

// requireRefused waits until the earlier programs have refused work of each kind, several times. Some dormant users log in meanwhile.
func (w *frozen) requireRefused(ctx context.Context, worker, rehydrator *process, returning []message.UserID) {
	w.Helper()
	const several = 3
	refused := func(p *process, with ...string) (lines int) {
		for line := range strings.Lines(p.Stderr()) {
			with := append(with, "unknown format version")
			if !slices.ContainsFunc(with, func(part string) bool { return !strings.Contains(line, part) }) {
				lines++
			}
		}
		return lines
	}
	impatient, err := client.New(rehydrator.site.URL(), client.Options{Tries: 1})
	require.NoError(w, err)
	defer impatient.Close()
	for _, user := range []message.UserID{reader, named, fan} {
		w.logIn(ctx, rehydrator, user)
		_, err := impatient.Inbox(ctx, user, client.InboxOptions{Peek: true})
		require.Error(w, err, "%s is shown an inbox that lacks messages to topics", user)
	}
	testenv.Eventually(ctx, w.T, "the earlier worker refuses tasks", func() bool { return refused(worker, "fan-out work failed") >= several })
	testenv.Eventually(ctx, w.T, "the earlier worker refuses events", func() bool { return refused(worker, "cannot be routed now") > 0 })
	for _, user := range returning {
		testenv.Eventually(ctx, w.T, "the earlier rehydrator refuses "+string(user), func() bool {
			return refused(rehydrator, "rehydration failed", `"`+string(user)+`"`) >= several
		})
	}
	for _, p := range []*process{worker, rehydrator} {
		require.True(w, p.Running())
		require.NotContains(w, p.Stderr(), "is a dead letter")
	}
	w.requireNoLetters(ctx, rehydrator)
}

func (w *frozen) requireNoLetters(ctx context.Context, rehydrator *process) {
	w.Helper()
	for letter, err := range rehydrator.client.DeadLetters(ctx) {
		require.NoError(w, err)
		require.Empty(w, letter, "there is a dead letter")
	}
}

// scans returns the scans of those messages that have a plan.
func (w *frozen) scans(ctx context.Context, ids []message.ID) map[message.ID]map[int]progress.Scan {
	w.Helper()
	fanouts, planned, err := w.db.Progress().GetMany(ctx, ids)
	require.NoError(w, err)
	found := make(map[message.ID]map[int]progress.Scan)
	for i, fanout := range fanouts {
		if planned[i] {
			require.False(w, fanout.Done(), "%s is done", ids[i])
			found[ids[i]] = fanout.Scans
		}
	}
	return found
}

// newFrozen returns a world whose database an earlier release has prepared.
func newFrozen(ctx context.Context, t *testing.T) *frozen {
	t.Helper()
	folder, dir := os.Getenv("FANMAIL_OLDER_PROGRAMS"), t.TempDir()
	w := &frozen{
		T: t, folder: folder, dir: dir, drafts: rand.IntN(12),
		users: filepath.Join(dir, "users.ndjson"), follows: filepath.Join(dir, "follows.tsv"), unlogged: filepath.Join(dir, "unlogged"),
	}
	w.write(w.unlogged, "")
	for _, program := range []string{"fanmail", "fanout-worker", "rehydrator"} {
		require.FileExists(t, w.older(program), `"make test-upgrade" builds it`)
	}
	var err error
	w.programs, err = testenv.Build(ctx, t.TempDir())
	require.NoError(t, err)
	port := testenv.FreePort(t)
	testenv.Exec(ctx, t, nil, w.programs.NATS, "--addr", "127.0.0.1", "--port", port, "--jetstream", "--store_dir", t.TempDir())
	uri, database := testenv.MongoDB(t)
	shared := settings()
	maps.Copy(shared, quick)
	maps.Copy(shared, map[string]string{
		"nats.url": "nats://127.0.0.1:" + port, "drain_timeout": "5m", "rehydrate.limit": "0",
		"fanout.express_max": "8", "fanout.medium_max": "30", "fanout.batch_owners": "10",
	})
	site := testenv.NewSite(t, shared)
	site.UseMongoDB(ctx, t, w.older("fanmail"), uri, database)
	site.UseMongoDB(ctx, t, w.programs.Fanmail, uri, database)
	w.settings = site.Settings
	w.open(ctx, uri, database)
	return w
}

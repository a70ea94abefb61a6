//go:build long

package e2e_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/internal/inbox"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/testenv"
)

// twins are two clients of an inbox: one that stays, and one that leaves and comes back all the time.
type twins struct{ stays, wanders *follower }

// household is a site with readers, each of whom has two clients.
type household struct {
	*world

	client *client.Client
	all    []twins
	calm   atomic.Bool // nothing is done to inboxes

	mu     sync.Mutex
	sent   []message.ID
	done   map[string]int            // what was done, by kind
	last   map[string]map[string]int // resets by process and reason, as last read
	resets map[string]int            // by reason, as far as a killed process has told
}

// TestFollowersEqualPages lets clients follow inboxes for a while. See testFollowers.
func TestFollowersEqualPages(t *testing.T) {
	t.Parallel()
	testFollowers(t, embedded, 6, 2, 200)
}

// TestFollowersForLong is TestFollowersEqualPages with 10,000 resumes on both stores together.
func TestFollowersForLong(t *testing.T) {
	t.Parallel()
	tests := []struct {
		on                       store
		readers, rounds, resumes int
	}{{embedded, 20, 6, 7_000}, {apart, 8, 3, 3_000}} // the database takes longer, and its users are dormant later
	for _, test := range tests {
		if test.on == embedded || testenv.OnMongoDB {
			t.Run(string(test.on), func(t *testing.T) {
				t.Parallel()
				h := testFollowers(t, test.on, test.readers, test.rounds, test.resumes)
				require.Len(t, h.done, len(h.deeds()), "something was never done: %v", h.done)
				require.True(t, test.on != embedded || h.resets[string(inbox.ResetGap)] > 0, "no user has missed enough for a gap")
			})
		}
	}
}

// testFollowers lets clients follow inboxes in which everything happens that can happen, while processes are killed and restarted, and hints
// between processes are lost. Whenever all is quiet, every client has what the pages have. A client begins anew only for a reason that it must.
func testFollowers(t *testing.T, on store, readers, rounds, resumes int) *household {
	t.Helper()
	ctx := bounded(t, 10*time.Minute)
	tolerance := time.Second
	if on != embedded {
		tolerance = 8 * time.Second // the database needs a quarter of it
	}
	w := newWorld(ctx, t, on, impatient(map[string]string{
		"partitions": "4", "fanout.direct_max": "5", "stream.look_every": "300ms", "inbox.bucket_size": "7", "rehydrate.limit": "20",
		"rehydrate.lease": "2s", "rehydrate.reap_every": "500ms", "retention.every": "1s", "clock_tolerance": tolerance.String(),
		"publish_slack": tolerance.String(), "idempotency.ttl": tolerance.String(), "dormant_after": (4 * tolerance).String(), "viewed_every": "100ms",
		"drain_delay": "0s",
	}))
	w.site.Provoked = append(w.site.Provoked, bus.ErrUnavailable)
	w.site.NATSConfig = filepath.Join(w.dir, "nats.conf")
	w.write(w.site.NATSConfig, "debug: false")
	h := &household{world: w, client: w.client(), done: make(map[string]int), last: make(map[string]map[string]int), resets: make(map[string]int)}
	server := w.start(ctx)
	h.moveIn(ctx, readers)
	streams := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2 * readers}}
	t.Cleanup(streams.CloseIdleConnections)
	h.followAll(ctx, streams)

	for round := 0; h.resumed() < resumes; round++ {
		half := resumes / rounds / 2
		target := min(resumes, h.resumed()+2*half)
		stop := h.traffic(ctx)
		testenv.Eventually(ctx, t, "half of the resumes", func() bool { return h.resumed() >= target-half })
		h.countResets(ctx, server)
		server = h.disturb(ctx, server, round)
		testenv.Eventually(ctx, t, "the other half", func() bool { return h.resumed() >= target })
		stop()
		h.requireEqual(ctx)
		h.countResets(ctx, server)
		t.Logf("round %d: %d resumes", round, h.resumed())
	}
	t.Logf("%d resumes; resets by reason, as far as they were read: %v; done: %v", h.resumed(), h.resets, h.done)
	require.Zero(t, h.resets[string(inbox.ResetAhead)])
	require.Equal(t, on == embedded, h.resets[string(inbox.ResetEpoch)] > 0, "a store that loses nothing begins no epoch: %v", h.resets)
	server.Stop(ctx)
	return h
}

func reader(i int) message.UserID { return message.UserID(fmt.Sprintf("reader-%02d", i)) }

// moveIn makes readers known. They follow an author and a topic.
func (h *household) moveIn(ctx context.Context, readers int) {
	h.Helper()
	require.NoError(h, h.client.CreateTopic(ctx, "news", false))
	for i := range readers {
		require.NoError(h, h.client.SetSeen(ctx, reader(i), time.Now()))
		require.NoError(h, h.client.Follow(ctx, reader(i), "star"))
		require.NoError(h, h.client.Subscribe(ctx, reader(i), "news"))
	}
	h.all = make([]twins, readers)
}

// followAll starts all clients. They end with the test.
func (h *household) followAll(ctx context.Context, streams *http.Client) {
	h.Helper()
	pages, err := client.New(h.site.URL(), client.Options{Tries: 1})
	require.NoError(h, err)
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	for i := range h.all {
		stays := &follower{site: h.site.URL(), user: reader(i), http: streams, pages: pages}
		wanders := &follower{site: h.site.URL(), user: reader(i), http: streams, pages: pages, looks: 10}
		if i%2 == 0 {
			wanders.looks = 0 // the user is dormant at times
		}
		running.Go(func() { stays.stay(ctx) })
		running.Go(func() { wanders.wander(ctx, h.calm.Load) })
		h.all[i] = twins{stays, wanders}
	}
	h.Cleanup(func() {
		cancel()
		running.Wait()
		pages.Close()
	})
}

func (h *household) resumed() (n int) {
	for _, t := range h.all {
		for _, f := range []*follower{t.stays, t.wanders} {
			f.mu.Lock()
			n += f.resumes
			f.mu.Unlock()
		}
	}
	return n
}

// deeds are what is done to inboxes. One that a dying process leaves undone does not count.
func (h *household) deeds() map[string]func(context.Context) error {
	someone := func() twins { return h.all[rand.IntN(len(h.all))] }
	publish := func(ctx context.Context, d message.Draft) error {
		d.From, d.Body = "star", strings.Repeat("hello ", 1+rand.IntN(100))
		receipt, err := h.client.Publish(ctx, d, "")
		if err == nil {
			h.mu.Lock()
			h.sent = append(h.sent, receipt.ID)
			h.mu.Unlock()
		}
		return err
	}
	// some calls f with messages that a client holds.
	some := func(f func(user message.UserID, ids []message.ID) error) error {
		t := someone()
		held := slices.Collect(maps.Keys(t.stays.shown().held))
		if len(held) == 0 {
			return errOldPage
		}
		return f(t.stays.user, held[:1+rand.IntN(min(5, len(held)))])
	}
	flip := func() *bool { b := rand.IntN(2) == 0; return &b }
	return map[string]func(context.Context) error{
		"direct": func(ctx context.Context) error {
			return publish(ctx, message.Draft{To: []message.UserID{someone().stays.user, someone().stays.user}})
		},
		"followers": func(ctx context.Context) error {
			return publish(ctx, message.Draft{Audience: message.AudienceFollowers})
		},
		"topic": func(ctx context.Context) error { return publish(ctx, message.Draft{Topics: []message.Topic{"news"}}) },
		"mark": func(ctx context.Context) error {
			return some(func(user message.UserID, ids []message.ID) error {
				_, err := h.client.Mark(ctx, user, client.MessageMarks{IDs: ids, Read: flip()})
				return err
			})
		},
		"archive": func(ctx context.Context) error {
			return some(func(user message.UserID, ids []message.ID) error {
				_, err := h.client.Mark(ctx, user, client.MessageMarks{IDs: ids, Archived: flip()})
				return err
			})
		},
		"read": func(ctx context.Context) error {
			return some(func(user message.UserID, ids []message.ID) error { return h.client.MarkRead(ctx, user, ids[0]) })
		},
		"seen": func(ctx context.Context) error { return h.client.Seen(ctx, someone().stays.user, "") },
		"delete": func(ctx context.Context) error {
			return some(func(user message.UserID, ids []message.ID) error { return h.client.Delete(ctx, user, ids[0]) })
		},
		"purge": func(ctx context.Context) error {
			return some(func(user message.UserID, ids []message.ID) error {
				_, err := h.client.Purge(ctx, user, client.Purge{Until: client.Time{Time: slices.MinFunc(ids, message.ID.Compare).Time()}})
				return err
			})
		},
		"retention": func(ctx context.Context) error {
			return h.client.SetRetention(ctx, someone().stays.user, client.Retention{Newest: 15 + rand.Int64N(50)})
		},
		"unfollow": func(ctx context.Context) error {
			user := someone().stays.user
			if err := h.client.Unfollow(ctx, user, "star"); err != nil {
				return err
			}
			return h.client.Follow(ctx, user, "star")
		},
	}
}

// traffic does things to inboxes until stop is called, which waits until all of that is in the inboxes.
func (h *household) traffic(ctx context.Context) (stop func()) {
	h.calm.Store(false)
	working, end := context.WithCancel(ctx)
	weights := map[string]int{"direct": 12, "followers": 6, "topic": 3, "mark": 4, "archive": 3, "purge": 1, "retention": 1}
	deeds := h.deeds()
	var drawn []string
	for kind := range deeds {
		drawn = append(drawn, slices.Repeat([]string{kind}, cmp.Or(weights[kind], 2))...)
	}
	var running sync.WaitGroup
	for range 3 {
		running.Go(func() {
			for working.Err() == nil {
				kind := drawn[rand.IntN(len(drawn))]
				if deeds[kind](working) == nil {
					h.mu.Lock()
					h.done[kind]++
					h.mu.Unlock()
				}
				pause(working, time.Duration(rand.IntN(100))*time.Millisecond)
			}
		})
	}
	return func() {
		end()
		running.Wait()
		for _, id := range h.sent {
			_, err := h.client.WaitDone(ctx, id, 0)
			require.NoError(h, err)
		}
		h.sent = nil
		h.calm.Store(true)
	}
}

// disturb kills or restarts a process. On NATS, hints are refused in every other round.
func (h *household) disturb(ctx context.Context, server server, round int) server {
	h.Helper()
	if roles, ok := server.(*testenv.Apart); ok {
		config := `authorization { users = [ { user: all, password: all, permissions: { publish: { deny: "fanmail.v1.changed.>" } } } ] }, no_auth_user: all`
		if round%2 == 1 {
			config = "debug: false"
		}
		h.write(h.site.NATSConfig, config)
		roles.RestartNATS(ctx)
		h.Logf("killed NATS and a %s", roles.KillOne(ctx))
		return server
	}
	if round%2 == 0 {
		server.Kill()
		server.RequireSound()
	} else {
		server.Stop(ctx)
	}
	return h.start(ctx)
}

// countResets adds what the processes tell about resets.
func (h *household) countResets(ctx context.Context, server server) {
	h.Helper()
	urls := server.(interface{ URLs() []string }).URLs()
	for _, url := range urls {
		now := make(map[string]int)
		for _, line := range h.measured(ctx, url) {
			var reason string
			var n int
			if _, err := fmt.Sscanf(line, "fanmail_stream_resets_total{reason=%q} %d", &reason, &n); err != nil {
				continue
			}
			if now[reason] = n; n >= h.last[url][reason] {
				n -= h.last[url][reason]
			} // or else it is another process
			h.resets[reason] += n
		}
		h.last[url] = now
	}
}

// requireEqual requires that each client comes to what the pages have.
func (h *household) requireEqual(ctx context.Context) {
	h.Helper()
	for _, t := range h.all {
		user := t.stays.user
		_, err := h.client.Login(ctx, user, client.MaxLoginWait)
		require.NoError(h, err)
		var differences []string
		limit, cancel := context.WithTimeout(ctx, time.Minute)
		for again := true; again && limit.Err() == nil; pause(limit, 50*time.Millisecond) {
			differences = nil
			all, tally, err := everyPage(ctx, h.client, user, nil)
			require.NoError(h, err)
			for name, f := range map[string]*follower{"the client that stays": t.stays, "the client that wanders": t.wanders} {
				shown := f.shown()
				f.mu.Lock()
				wrong, trouble := f.wrong, f.trouble
				f.mu.Unlock()
				require.NoError(h, wrong)
				if shown.owed || shown.tally != tally || !reflect.DeepEqual(shown.held, all) {
					differences = append(differences, fmt.Sprintf("%s of %s: owed %v, %d held of %d, %v, counts %v of %v, version %v, last error %v",
						name, user, shown.owed, len(shown.held), len(all), different(shown.held, all), shown.tally, tally, shown.version, trouble))
				}
			}
			again = len(differences) > 0
		}
		cancel()
		require.Empty(h, differences)
	}
}

// different returns the messages of which one side has another state than the other.
func different(held, all map[message.ID]mark) (ids []string) {
	for id, m := range all {
		if have, known := held[id]; !known || have != m {
			ids = append(ids, fmt.Sprintf("%s held %v %+v, page %+v", id, known, have, m))
		}
	}
	for id, m := range held {
		if _, known := all[id]; !known {
			ids = append(ids, fmt.Sprintf("%s held %+v, not on a page", id, m))
		}
	}
	return ids
}

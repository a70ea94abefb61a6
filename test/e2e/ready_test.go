//go:build long && mongod

package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/testenv"
)

// TestReadyUnderLoad stops the NATS server and then the database server of separate roles, while a client reads, a client publishes and
// new users log in. Without NATS, publishers and rehydrators stay in service and answer, and a fan-out worker does not. Without the
// database, no role is in service. Every accepted message is in the inbox at the end.
func TestReadyUnderLoad(t *testing.T) {
	t.Parallel()
	ctx := bounded(t, 10*time.Minute)
	database := testenv.StartMongoDB(t)
	w := newWorld(ctx, t, embedded, impatient(map[string]string{"partitions": "4", "mongodb.timeout": "3s"}))
	w.on = apart
	w.site.UseMongoDB(ctx, t, w.programs.Fanmail, database.URI(), "fanmail")
	roles := w.site.StartApart(ctx, t, w.programs)
	require.NoError(t, w.client().SetSeen(ctx, "ben", time.Now()))

	load := startLoad(ctx, t, map[string]func(ctx context.Context, n int) *http.Request{
		"read": func(ctx context.Context, _ int) *http.Request {
			return w.asks(ctx, http.MethodGet, "/v1/users/ben/inbox", "")
		},
		"login": func(ctx context.Context, n int) *http.Request {
			return w.asks(ctx, http.MethodPost, fmt.Sprintf("/v1/users/new-%d/login", n), "")
		},
		"publish": func(ctx context.Context, _ int) *http.Request {
			return w.asks(ctx, http.MethodPost, "/v1/messages", `{"from":"ann","to":["ben"],"body":"hello"}`)
		},
	})
	whole := func(text string) bool { return strings.TrimSpace(text) == `{"status":"ready"}` }
	limited := func(text string) bool {
		var c struct{ Limited []client.Reason }
		return json.Unmarshal([]byte(text), &c) == nil && len(c.Limited) == 1 && c.Limited[0].Name == client.ReasonBus
	}
	without := func(name client.ReasonName) func(string) bool {
		return func(text string) bool {
			var p client.Problem
			return json.Unmarshal([]byte(text), &p) == nil && len(p.Reasons) == 1 && p.Reasons[0].Name == name
		}
	}
	await := func(publisher, rehydrator, worker func(string) bool) {
		t.Helper()
		for binary, is := range map[string]func(string) bool{
			w.programs.Publisher: publisher, w.programs.Rehydrator: rehydrator, w.programs.FanoutWorker: worker,
		} {
			for _, url := range roles.Of(binary) {
				testenv.Eventually(ctx, t, filepath.Base(binary)+" says what it lacks", func() bool { return is(readyz(ctx, url)) })
			}
		}
	}
	only := func(kind string, seen map[string]map[int]int, statuses ...int) {
		t.Helper()
		require.Positive(t, seen[kind][statuses[0]], "%s: %v", kind, seen[kind])
		for status := range seen[kind] {
			require.Contains(t, statuses, status, "%s: %v", kind, seen[kind])
		}
	}

	await(whole, whole, whole)
	seen := load.answers(ctx, "with both", 20)
	only("read", seen, http.StatusOK)
	only("login", seen, http.StatusOK, http.StatusAccepted)
	only("publish", seen, http.StatusAccepted)

	roles.KillNATS()
	await(limited, limited, without(client.ReasonBus))
	seen = load.answers(ctx, "without NATS", 150) // for more than a second, so that the gate of each publisher opens
	only("read", seen, http.StatusOK)
	only("login", seen, http.StatusOK, http.StatusAccepted)
	only("publish", seen, http.StatusAccepted, http.StatusServiceUnavailable) // the gate is open about once a second

	roles.RestartNATS(ctx)
	await(whole, whole, whole)
	only("read", load.answers(ctx, "with both again", 20), http.StatusOK)

	database.Kill()
	store := without(client.ReasonStore)
	await(store, store, store)
	seen = load.answers(ctx, "without the database", 3)
	for kind := range seen {
		only(kind, seen, http.StatusServiceUnavailable)
	}

	database.Start()
	await(whole, whole, whole)
	seen = load.answers(ctx, "with both at the end", 20)
	only("read", seen, http.StatusOK)
	accepted := load.end()
	require.NotEmpty(t, accepted)
	for _, id := range accepted {
		_, err := w.client().WaitDone(ctx, id, 0)
		require.NoError(t, err)
	}
	has := make(map[message.ID]int)
	for _, m := range w.inbox(ctx, "ben", client.InboxOptions{}) {
		has[m.ID]++
	}
	for _, id := range accepted {
		require.Equal(t, 1, has[id], "message %s", id)
	}
	roles.Stop(ctx)
}

// inbox returns all messages of an inbox, newest first.
func (w *world) inbox(ctx context.Context, user message.UserID, opts client.InboxOptions) (all []client.InboxMessage) {
	w.Helper()
	for m, err := range w.client().InboxAll(ctx, user, opts) {
		require.NoError(w, err)
		all = append(all, m)
	}
	return all
}

// asks returns a request to the front.
func (w *world) asks(ctx context.Context, method, path, body string) *http.Request {
	request, err := http.NewRequestWithContext(ctx, method, w.site.URL()+path, strings.NewReader(body))
	if err != nil {
		panic(err) // the URL is that of this test
	}
	request.Header.Set("Content-Type", client.ContentJSON)
	return request
}

// readyz returns the answer of a process to /readyz, or "" if there is none.
func readyz(ctx context.Context, url string) string {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/readyz", http.NoBody)
	if err != nil {
		return ""
	}
	_, text, _ := answerTo(request)
	return text
}

// answerTo sends a request on a connection of its own.
func answerTo(request *http.Request) (status int, text string, err error) {
	once := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := once.Do(request)
	if err != nil {
		return 0, "", err
	}
	body, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(body), errors.Join(err, answer.Body.Close())
}

// load sends requests of several kinds, those of one kind one after another, and counts the answers by status.
type load struct {
	t     *testing.T
	stop  context.CancelFunc
	sends sync.WaitGroup

	mu       sync.Mutex
	period   int
	seen     map[string]map[int]int // of requests that were sent in this period
	accepted []message.ID
}

// startLoad sends requests until end. A status of 0 stands for a request without an answer.
func startLoad(ctx context.Context, t *testing.T, kinds map[string]func(ctx context.Context, n int) *http.Request) *load {
	t.Helper()
	l := &load{t: t, seen: make(map[string]map[int]int)}
	ctx, l.stop = context.WithCancel(ctx)
	t.Cleanup(func() { l.end() })
	for kind, next := range kinds {
		l.sends.Go(func() {
			pace := time.NewTicker(10 * time.Millisecond)
			defer pace.Stop()
			for n := 0; ctx.Err() == nil; n++ {
				l.send(ctx, kind, next(ctx, n))
				select {
				case <-pace.C:
				case <-ctx.Done():
				}
			}
		})
	}
	return l
}

func (l *load) send(ctx context.Context, kind string, request *http.Request) {
	l.mu.Lock()
	period := l.period
	l.mu.Unlock()
	status, text, _ := answerTo(request)
	if ctx.Err() != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var receipt client.Receipt
	if status == http.StatusAccepted && json.Unmarshal([]byte(text), &receipt) == nil && !receipt.ID.IsZero() {
		l.accepted = append(l.accepted, receipt.ID)
	}
	if period != l.period {
		return
	}
	if l.seen[kind] == nil {
		l.seen[kind] = make(map[int]int)
	}
	l.seen[kind][status]++
}

// answers begins a period, waits until at least some requests of each kind were sent and answered in it, and returns the number of
// answers by kind and status.
func (l *load) answers(ctx context.Context, period string, least int) map[string]map[int]int {
	l.t.Helper()
	l.mu.Lock()
	l.period++
	l.seen = make(map[string]map[int]int)
	l.mu.Unlock()
	testenv.Eventually(ctx, l.t, "requests of all kinds are answered "+period, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, kind := range []string{"read", "login", "publish"} {
			n := 0
			for _, answers := range l.seen[kind] {
				n += answers
			}
			if n < least {
				return false
			}
		}
		return true
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.t.Logf("%s: %v", period, l.seen)
	seen := l.seen
	l.seen = make(map[string]map[int]int)
	l.period++
	return seen
}

// end stops the load, and returns the ids of the accepted messages.
func (l *load) end() []message.ID {
	l.stop()
	l.sends.Wait()
	return l.accepted
}

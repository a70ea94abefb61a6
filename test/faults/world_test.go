//go:build long && mongodb

package faults_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/test/testenv"
)

// world is a site on a database, with the files of a test.
type world struct {
	*testing.T
	site *testenv.Site
	cast cast

	dir       string   // of the files below
	users     string   // when users were last seen, for import and check
	follows   string   // the first edges, for import and check
	pairs     string   // users and their twins, for check
	published string   // the accepted messages
	logins    []string // the users who have returned
	checking  []string // more arguments for the checker
}

// newWorld returns a world without a database.
func newWorld(t *testing.T, settings map[string]string) *world {
	t.Helper()
	all := map[string]string{
		"log.level": "debug",
		// The timeout is longer than most outages in the tests, so requests wait instead of failing.
		"mongodb.timeout": "30s",
		// Work in small steps, so that more work can be interrupted. Find unfinished work soon.
		"partitions": "4", "fanout.direct_max": "10", "fanout.batch_owners": "20", "rehydrate.page": "20", "rehydrate.limit": "0",
		"nats.ack_wait": "3s", "fanout.resume_after": "20s", "fanout.resume_every": "2s", "rehydrate.lease": "3s", "rehydrate.reap_every": "500ms",
	}
	maps.Copy(all, settings)
	dir := t.TempDir()
	return &world{
		T: t, cast: newCast(), site: testenv.NewSite(t, all), dir: dir,
		users: filepath.Join(dir, "users.ndjson"), follows: filepath.Join(dir, "follows.tsv"), pairs: filepath.Join(dir, "pairs.tsv"),
		published: filepath.Join(dir, "published.ndjson"),
	}
}

// use creates a database and makes the world use it.
func (w *world) use(ctx context.Context, uri, database string) {
	w.Helper()
	w.site.UseMongoDB(ctx, w.T, programs.Fanmail, uri, database)
}

func (w *world) write(path, text string) {
	w.Helper()
	require.NoError(w, os.WriteFile(path, []byte(text), 0o600))
}

// launch starts a server without waiting until it is ready.
func (w *world) launch(ctx context.Context) *server {
	w.Helper()
	settings := map[string]string{"addr": w.site.Addr, "data": w.site.Data, "log.format": "json"}
	maps.Copy(settings, w.site.Settings)
	return &server{Process: testenv.Exec(ctx, w.T, settings, programs.Fanmail, "serve")}
}

// start starts a server and imports the cast.
func (w *world) start(ctx context.Context) *server {
	w.Helper()
	s := &server{Process: w.site.Start(ctx, w.T, programs.Fanmail).Process}
	w.people(ctx)
	return s
}

// people imports the cast.
func (w *world) people(ctx context.Context) {
	w.Helper()
	w.write(w.users, w.cast.users())
	w.write(w.follows, w.cast.follows())
	w.write(w.pairs, w.cast.pairs())
	for _, file := range [][]string{{"users", w.users}, {"follows", w.follows}} {
		for { // on a very busy machine the server may reject some lines, which need another try
			imported := testenv.Exec(ctx, w.T, nil, programs.Fanmail, "import", file[0], file[1], "--server", w.site.URL())
			if imported.Code(ctx) == 0 {
				break
			}
			require.Contains(w, imported.Stderr(), "try again")
		}
	}
}

// drive starts to publish a script, and repeats requests until all of it is published. The idempotency key prevents duplicates.
func (w *world) drive(ctx context.Context, script string, args ...string) *testenv.Process {
	w.Helper()
	file := filepath.Join(w.dir, "script.ndjson")
	w.write(file, script)
	args = append([]string{"publish", "--server", w.site.URL(), "--file", file, "--log", w.published, "--connections", "8"}, args...)
	return testenv.Exec(ctx, w.T, nil, programs.Driver, args...)
}

// awaitAccepted waits until a number of lines are executed, and requires that lines remain.
func (w *world) awaitAccepted(ctx context.Context, driver *testenv.Process, lines int) {
	w.Helper()
	w.await(ctx, strconv.Itoa(lines)+" lines are carried out", func() bool {
		require.True(w, driver.Running(), "publishing has ended: %s", driver.Stderr())
		text, err := os.ReadFile(w.published)
		return err == nil && bytes.Count(text, []byte("\n")) >= lines
	})
}

// login starts to let users return, and repeats requests until all their inboxes are complete.
func (w *world) login(ctx context.Context, users []string, args ...string) *testenv.Process {
	w.Helper()
	file := filepath.Join(w.dir, "logins-"+strconv.Itoa(len(w.logins)))
	log := file + ".ndjson"
	w.write(file, strings.Join(users, "\n"))
	w.logins = append(w.logins, log)
	args = append([]string{"login", "--server", w.site.URL(), "--file", file, "--log", log, "--by", "either", "--connections", "8"}, args...)
	return testenv.Exec(ctx, w.T, nil, programs.Driver, args...)
}

// unlogged tells the checker that a user has returned without an entry in the log.
func (w *world) unlogged(user string) {
	w.Helper()
	file := filepath.Join(w.dir, "unlogged")
	w.write(file, user)
	w.checking = append(w.checking, "--unlogged", file)
}

// done requires that a program ends successfully.
func (w *world) done(ctx context.Context, p *testenv.Process) {
	w.Helper()
	require.Zero(w, p.Code(ctx), p.Stderr())
	w.Log(strings.TrimSpace(p.Stdout()))
}

// requireRight requires that every inbox is exactly right. The independent checker waits until everything is delivered, and must
// find nothing. The audit must find nothing, too. All users of away must have returned.
func (w *world) requireRight(ctx context.Context) {
	w.Helper()
	checker := testenv.Exec(ctx, w.T, nil, programs.Check, append([]string{
		"--server", w.site.URL(), "--published", w.published, "--users", w.users, "--follows", w.follows, "--pairs", w.pairs,
		"--logins", strings.Join(w.logins, ","), "--rehydrate-limit", "0", "--page-sizes", "50", "--wait", "15m", "--json",
	}, w.checking...)...)
	code := checker.Code(ctx)
	var found struct {
		Messages, Delivered int
		Twins               struct{ Pairs, Messages int }
		Findings            map[string]int
		Examples            map[string][]string
	}
	require.NoError(w, json.Unmarshal([]byte(checker.Stdout()), &found), checker.Stderr())
	require.Empty(w, found.Findings, "%v", found.Examples)
	require.Zero(w, code)
	require.Equal(w, len(w.cast.away), found.Twins.Pairs)
	require.Positive(w, found.Twins.Messages)
	require.Positive(w, found.Delivered)
	w.Logf("check: %d messages, %d deliveries, %d messages in the inboxes of twins", found.Messages, found.Delivered, found.Twins.Messages)

	for {
		audit := testenv.Exec(ctx, w.T, nil, programs.Fanmail, "audit", "--json", "--server", w.site.URL())
		code := audit.Code(ctx)
		require.NotContains(w, audit.Stdout(), `"finding"`)
		if code == 0 {
			require.Contains(w, audit.Stdout(), `"summary"`)
			return
		}
		require.Contains(w, audit.Stderr(), "try again") // the database on a busy machine exceeded mongodb.timeout
	}
}

// request is a request to the server.
type request struct{ method, path, body string }

func get(path string) request { return request{http.MethodGet, path, ""} }

// answer is an answer of the server.
type answer struct {
	client.Problem        // empty for a success
	status         int    // the HTTP status
	retryAfter     string // the header Retry-After
	text           string
}

// ask sends a request once.
func (w *world) ask(ctx context.Context, r request) answer {
	w.Helper()
	return w.askAll(ctx, r)[0]
}

// askAll sends requests concurrently, each once, and returns the answers in their order.
func (w *world) askAll(ctx context.Context, requests ...request) []answer {
	w.Helper()
	answers := make([]answer, len(requests))
	var group errgroup.Group
	for i, r := range requests {
		group.Go(func() (err error) {
			answers[i], err = r.send(ctx, w.site.URL())
			return err
		})
	}
	require.NoError(w, group.Wait())
	return answers
}

func (r request) send(ctx context.Context, server string) (a answer, err error) {
	sent, err := http.NewRequestWithContext(ctx, r.method, server+r.path, strings.NewReader(r.body))
	if err != nil {
		return a, err
	}
	if r.body != "" {
		sent.Header.Set("Content-Type", client.ContentJSON)
	}
	once := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	got, err := once.Do(sent)
	if err != nil {
		return a, err
	}
	defer func() { err = errors.Join(err, got.Body.Close()) }()
	text, err := io.ReadAll(got.Body)
	a = answer{status: got.StatusCode, retryAfter: got.Header.Get("Retry-After"), text: string(text)}
	if err == nil && got.Header.Get("Content-Type") == client.ContentProblem {
		err = json.Unmarshal(text, &a.Problem)
	}
	return a, err
}

// awaitReady waits until /readyz answers with a status, and returns the answer.
func (w *world) awaitReady(ctx context.Context, status int) (last answer) {
	w.Helper()
	w.await(ctx, "/readyz says "+strconv.Itoa(status), func() bool {
		last = w.ask(ctx, get("/readyz"))
		return last.status == status
	})
	return last
}

// outage waits until the server reports that the database is unreachable, ends the fault, and waits until the server is ready. The
// drivers stand still meanwhile: on a busy machine they could finish before this test sees that the server is ready.
func (w *world) outage(ctx context.Context, end func(), drivers ...*testenv.Process) {
	w.Helper()
	w.await(ctx, "/readyz says that the store is away", func() bool { // on a busy machine other reasons may come first
		last := w.ask(ctx, get("/readyz"))
		return last.status == http.StatusServiceUnavailable && last.Detail == "the server is not ready: the store does not answer within 2s"
	})
	require.Equal(w, http.StatusOK, w.ask(ctx, get("/healthz")).status, "to start it again would not help")
	for _, driver := range drivers {
		driver.Freeze()
		defer driver.Thaw()
	}
	end()
	w.awaitReady(ctx, http.StatusOK)
}

// requireNoticed requires that the log has at least this number of outages, and waits for the end of each. A busy machine can add
// outages, also one that has not ended yet.
func (w *world) requireNoticed(ctx context.Context, s *server, outages int) {
	w.Helper()
	require.GreaterOrEqual(w, s.count(w.T, silence), outages)
	w.await(ctx, "every outage in the log has ended", func() bool {
		begun, ended := 0, 0
		for _, l := range s.log(w.T) {
			switch l.message() {
			case silence:
				begun++
			case answers:
				ended++
			}
		}
		return begun == ended
	})
}

// metric returns the value of a metric of the server.
func (w *world) metric(ctx context.Context, name string) float64 {
	w.Helper()
	for line := range strings.Lines(w.ask(ctx, get("/metrics")).text) {
		if text, ok := strings.CutPrefix(line, name+" "); ok {
			value, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
			require.NoError(w, err)
			return value
		}
	}
	require.Fail(w, "there is no such metric", name)
	return 0
}

// await waits for a condition that is expensive to check.
func (w *world) await(ctx context.Context, what string, condition func() bool) {
	w.Helper()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	testenv.Eventually(ctx, w.T, what, func() bool {
		if condition() {
			return true
		}
		select {
		case <-again.C:
		case <-ctx.Done():
		}
		return false
	})
}

// bounded returns a context with the time limit of a test.
func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

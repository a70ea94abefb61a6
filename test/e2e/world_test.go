//go:build long

package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/test/testenv"
)

// world is a site with the files of a test.
type world struct {
	*testing.T
	site *testenv.Site
	on   store
	// programs are the programs of the servers.
	programs testenv.Binaries

	dir       string // of the files below
	users     string // when users were last seen, for import and check
	follows   string // the edges, for import and check; or empty
	messages  string // the messages to publish
	published string // the accepted messages

	logins   []string // the users who returned
	checking []string // more arguments for the checker
}

// newWorld returns a world with an empty store. By chance, an embedded store writes every push as tables, for which few tests have enough
// users.
func newWorld(ctx context.Context, t *testing.T, on store, settings map[string]string) *world {
	t.Helper()
	dir := t.TempDir()
	const tables = "embedded.table_entries"
	if _, given := settings[tables]; on == embedded && !given && rand.IntN(2) == 0 {
		settings = maps.Clone(settings)
		if settings == nil {
			settings = make(map[string]string)
		}
		settings[tables] = "1"
		t.Log("every push is written as tables")
	}
	site := testenv.NewSite(t, settings)
	if on != embedded {
		uri, database := testenv.MongoDB(t)
		site.UseMongoDB(ctx, t, programs.Fanmail, uri, database)
	}
	return &world{
		T: t, site: site, on: on, programs: programs, dir: dir,
		users: filepath.Join(dir, "users.ndjson"), messages: filepath.Join(dir, "messages.ndjson"),
		published: filepath.Join(dir, "published.ndjson"),
	}
}

// impatient returns settings with which a server finds unfinished work soon. The server also works in small steps, so that a kill
// leaves more unfinished work.
func impatient(more map[string]string) map[string]string {
	settings := map[string]string{
		"nats.ack_wait": "2s", "fanout.resume_after": "5s", "fanout.resume_every": "1s",
		"drain_timeout": "5m", // stopping takes long on a busy machine with work in flight
	}
	if !full() { // a starting server declares a consumer for each lane and partition
		settings["partitions"] = "16"
	}
	maps.Copy(settings, more)
	return settings
}

// detectRaces makes the servers use the race detector. Everything takes longer then, and the server must not treat running work as
// abandoned.
func (w *world) detectRaces() {
	w.Helper()
	built, err := raceDetecting()
	require.NoError(w, err)
	w.programs.Fanmail, w.programs.Faulty = built.Fanmail, built.Faulty
	w.site.Settings["nats.ack_wait"], w.site.Settings["fanout.resume_after"] = "3s", "20s"
}

// testdata returns the path of a file with recorded data.
func (w *world) testdata(name string) string {
	w.Helper()
	path, err := filepath.Abs(filepath.Join("..", "testdata", name))
	require.NoError(w, err)
	return path
}

// write writes a text to a file.
func (w *world) write(path, text string) {
	w.Helper()
	require.NoError(w, os.WriteFile(path, []byte(text), 0o600))
}

// generate writes the output of the driver to a file.
func (w *world) generate(ctx context.Context, path string, args ...string) {
	w.Helper()
	w.write(path, testenv.Run(ctx, w.T, programs.Driver, args...))
}

// patience is how long the delivery of accepted messages may take. A large world on a busy machine needs minutes. After a kill with
// a backlog of thousands of messages, each message continues in many small batches.
func patience() string {
	if full() {
		return "15m"
	}
	return "4m"
}

// server is the running program of a site: one process or several.
type server interface {
	Kill()
	Stop(ctx context.Context)
	RequireSound()
}

func (w *world) start(ctx context.Context) server {
	w.Helper()
	if w.on == apart {
		return w.site.StartApart(ctx, w.T, w.programs)
	}
	return w.site.Start(ctx, w.T, w.programs.Fanmail)
}

// fanmail runs a command on the server. It repeats an import that a busy server has refused. It also repeats an import of users if some
// of them count as dormant already, because the import began long after their file was written: the server rebuilds their inboxes first.
func (w *world) fanmail(ctx context.Context, args ...string) string {
	w.Helper()
	args = append(args, "--server", w.site.URL())
	for args[0] == "import" {
		command := testenv.Exec(ctx, w.T, nil, w.programs.Fanmail, args...)
		if command.Code(ctx) == 0 {
			return command.Stdout()
		}
		require.Regexp(w, "repeat the command|try again in a moment", command.Stderr())
	}
	return testenv.Run(ctx, w.T, w.programs.Fanmail, args...)
}

func (w *world) client() *client.Client {
	w.Helper()
	c, err := client.New(w.site.URL(), client.Options{})
	require.NoError(w, err)
	w.Cleanup(c.Close)
	return c
}

// drive starts to publish the messages.
func (w *world) drive(ctx context.Context, args ...string) *testenv.Process {
	w.Helper()
	args = append([]string{"publish", "--server", w.site.URL(), "--file", w.messages, "--log", w.published}, args...)
	return testenv.Exec(ctx, w.T, nil, programs.Driver, args...)
}

// publish publishes the messages.
func (w *world) publish(ctx context.Context, args ...string) {
	w.Helper()
	driver := w.drive(ctx, args...)
	require.Zero(w, driver.Code(ctx), "publishing failed")
	w.Log(driver.Stdout())
}

// accepted returns the number of lines that were accepted so far.
func (w *world) accepted() int {
	w.Helper()
	return w.lines(w.published)
}

// contents returns the lines of a file.
func (w *world) contents(path string) []string {
	w.Helper()
	text, err := os.ReadFile(path)
	require.NoError(w, err)
	return slices.Collect(strings.Lines(string(text)))
}

// lines returns the number of lines of a file, or 0 if it does not exist.
func (w *world) lines(path string) int {
	w.Helper()
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return 0
	}
	require.NoError(w, err)
	return bytes.Count(text, []byte("\n"))
}

// pages has the checker's statistics of pages of one size.
type pages struct {
	Size    int         `json:"size"`
	Pages   int         `json:"pages"`
	Full    int         `json:"full"`
	Average float64     `json:"average_buckets"`
	Most    int         `json:"most_buckets"`
	Buckets map[int]int `json:"pages_by_buckets"`
}

// report is the report of the checker.
type report struct {
	Messages      int     `json:"messages"`
	Edges         int     `json:"edges"`
	Inboxes       int     `json:"inboxes"`
	Perhaps       int     `json:"perhaps"`
	Delivered     int     `json:"delivered"`
	Skipped       int     `json:"skipped"`
	Either        int     `json:"either"`
	SaidDelivered int     `json:"said_delivered"`
	SaidSkipped   int     `json:"said_skipped"`
	Pages         []pages `json:"pages"`
	Looks         struct {
		Users       int   `json:"users"`
		Looks       int   `json:"looks"`
		Provisional int   `json:"provisional"`
		Read        int   `json:"read"`
		Compared    int   `json:"compared"`
		Recovered   int64 `json:"recovered"`
	} `json:"looks"`
	Gaps struct {
		Gaps     int `json:"gaps"`
		Messages int `json:"messages"`
		Paged    int `json:"paged"`
		Pages    int `json:"pages"`
	} `json:"gaps"`
	Twins struct {
		Pairs     int `json:"pairs"`
		Messages  int `json:"messages"`
		Tolerated int `json:"tolerated"`
	} `json:"twins"`
	Findings map[string]int      `json:"findings"`
	Examples map[string][]string `json:"examples"`
	Seconds  float64             `json:"seconds"`
}

// metric returns the value of a metric of the server.
func (w *world) metric(ctx context.Context, name string) int {
	w.Helper()
	for _, line := range w.measured(ctx, w.site.URL()) {
		if text, ok := strings.CutPrefix(line, name+" "); ok {
			value, err := strconv.Atoi(text)
			require.NoError(w, err)
			return value
		}
	}
	require.Fail(w, "there is no such metric", name)
	return 0
}

// measured returns the lines of a process's metrics.
func (w *world) measured(ctx context.Context, url string) []string {
	w.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/metrics", http.NoBody)
	require.NoError(w, err)
	once := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := once.Do(request)
	require.NoError(w, err)
	text, err := io.ReadAll(answer.Body)
	require.NoError(w, err)
	require.NoError(w, answer.Body.Close())
	return strings.Split(string(text), "\n")
}

// check makes the checker wait until all messages are done, requires that it finds nothing wrong, and returns its report.
func (w *world) check(ctx context.Context) report {
	w.Helper()
	args := []string{"--server", w.site.URL(), "--published", w.published, "--users", w.users, "--wait", patience(), "--json"}
	if w.follows != "" {
		args = append(args, "--follows", w.follows)
	}
	if len(w.logins) > 0 {
		args = append(args, "--logins", strings.Join(w.logins, ","))
	}
	checker := testenv.Exec(ctx, w.T, nil, programs.Check, append(args, w.checking...)...)
	code := checker.Code(ctx)
	var found report
	require.NoError(w, json.Unmarshal([]byte(checker.Stdout()), &found), checker.Stderr())
	require.Empty(w, found.Findings, "%v", found.Examples)
	require.Zero(w, code)
	if found.Either == 0 {
		require.Equal(w, found.Delivered, found.SaidDelivered)
		require.Equal(w, found.Skipped, found.SaidSkipped)
	}
	w.Logf("check: %s", strings.TrimSpace(checker.Stdout()))
	return found
}

// full reports whether tests use all of their data.
func full() bool { return os.Getenv("FANMAIL_E2E_FULL") == "1" }

// bounded returns a context that ends a test that hangs. limit is how long the test may take on a quiet machine.
func bounded(t *testing.T, limit time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*limit)
	t.Cleanup(cancel)
	return ctx
}

//go:build older

package main

import (
	"bufio"
	"context"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/test/testenv"
)

// TestSideBySide runs the programs of an earlier release and of this one beside each other on a database of its format level, under the
// load of publishes, logins, follows, deletions and read marks. The old ones die in the middle of their work, the level is raised, and
// the load continues. At the end every inbox shows every message once. The folder of the old programs is in FANMAIL_OLDER_PROGRAMS.
func TestSideBySide(t *testing.T) {
	t.Parallel()
	const turns = 40
	older := filepath.Join(os.Getenv("FANMAIL_OLDER_PROGRAMS"), "fanmail")
	require.FileExists(t, older, `"make test-upgrade" builds it`)
	ctx := t.Context()
	programs, err := testenv.Build(ctx, t.TempDir())
	require.NoError(t, err)
	seed := rand.Uint64() >> 32
	t.Logf("seed %d", seed)
	l := newWorkload(seed)

	port := testenv.FreePort(t)
	nats := testenv.Exec(ctx, t, nil, programs.NATS, "--addr", "127.0.0.1", "--port", port, "--jetstream", "--store_dir", t.TempDir())
	uri, database := testenv.MongoDB(t)
	shared := settings()
	maps.Copy(shared, quick)
	maps.Copy(shared, map[string]string{"nats.url": "nats://127.0.0.1:" + port, "drain_timeout": "5m"})
	before := testenv.NewSite(t, shared)
	before.UseMongoDB(ctx, t, older, uri, database)
	now := testenv.NewSite(t, before.Settings)

	oldServer, oldClient := before.Start(ctx, t, older), newClient(t, before)
	l.servers = []*client.Client{oldClient}
	require.NoError(t, l.begin(ctx))
	require.NoError(t, l.run(ctx, turns/2))

	now.UseMongoDB(ctx, t, programs.Fanmail, uri, database)
	newServer, newClient := now.Start(ctx, t, programs.Fanmail), newClient(t, now)
	l.servers = []*client.Client{newClient, oldClient}
	begun := delivered(ctx, t, before)
	for more := turns; more == turns || delivered(ctx, t, before) == begun || delivered(ctx, t, now) == 0; more = 1 {
		require.NoError(t, l.run(ctx, more)) // until each release has taken part
	}
	require.NoError(t, l.await(ctx))
	t.Logf("side by side: delivered by the old release %d, by the new one %d", delivered(ctx, t, before)-begun, delivered(ctx, t, now))
	for _, c := range l.servers {
		all, err := look(ctx, c)
		require.NoError(t, err)
		require.Empty(t, l.wrong(all))
	}

	require.NoError(t, l.run(ctx, turns))
	oldServer.Kill()
	oldServer.RequireSound()
	l.servers = []*client.Client{newClient}
	upgrade(ctx, t, programs.Fanmail, now)
	refused := testenv.Exec(ctx, t, before.Settings, older, "serve")
	require.Equal(t, 1, refused.Code(ctx))
	require.Contains(t, refused.Stderr(), "unknown format version")

	require.NoError(t, l.run(ctx, turns))
	require.NoError(t, logIn(ctx, newClient))
	require.NoError(t, l.await(ctx))
	all, err := look(ctx, newClient)
	require.NoError(t, err)
	require.Empty(t, l.wrong(all))
	code, report := audit(ctx, t, programs.Fanmail, now)
	require.Zero(t, code, report)
	entries := 0
	for _, u := range all.Users {
		entries += len(u.entries)
	}
	t.Logf("%d messages, %d entries in inboxes; %d looks, %d logins, %d changes of edges, %d deletions; audit: %s",
		len(l.ids()), entries, l.looks.Load(), l.logins.Load(), l.changes.Load(), l.deleted.Load(), report)

	// The checks find what they are for.
	owner := fans()[0]
	lost, doubled := all.Users[owner].entries[0].ID, all.Users[owner].entries[1].ID
	for _, damage := range [][]string{{"remove", lost.String()}, {"double", doubled.String()}} {
		args := append([]string{"-mongodb-uri", uri, "-mongodb-database", database, "-user", string(owner)}, damage...)
		testenv.Run(ctx, t, programs.Tamper, args...)
	}
	all, err = look(ctx, newClient)
	require.NoError(t, err)
	require.Contains(t, l.wrong(all), string(owner)+": "+lost.String()+" is lost")
	code, report = audit(ctx, t, programs.Fanmail, now)
	require.Equal(t, 1, code)
	require.Contains(t, report, lost.String())
	require.Contains(t, report, doubled.String())
	t.Logf("after the damage: %v", l.wrong(all))

	newServer.Stop(ctx)
	nats.Terminate()
	nats.Code(ctx)
}

// TestFolderOfEarlierRelease runs an earlier release and this one in turns on one data folder. The earlier one opens it until the level was
// raised, and is refused afterwards.
func TestFolderOfEarlierRelease(t *testing.T) {
	t.Parallel()
	const turns = 10
	older := filepath.Join(os.Getenv("FANMAIL_OLDER_PROGRAMS"), "fanmail")
	require.FileExists(t, older, `"make test-upgrade" builds it`)
	ctx := t.Context()
	programs, err := testenv.Build(ctx, t.TempDir())
	require.NoError(t, err)
	l := newWorkload(rand.Uint64() >> 32)
	shared := settings()
	maps.Copy(shared, quick)
	site := testenv.NewSite(t, shared)
	l.servers = []*client.Client{newClient(t, site)}
	for turn, program := range []string{older, programs.Fanmail, older, programs.Fanmail} {
		server := site.Start(ctx, t, program)
		if turn == 0 {
			require.NoError(t, l.begin(ctx))
		}
		require.NoError(t, l.run(ctx, turns))
		require.NoError(t, l.await(ctx))
		all, err := look(ctx, l.servers[0])
		require.NoError(t, err)
		require.Empty(t, l.wrong(all), "turn %d", turn)
		if turn == 3 {
			upgrade(ctx, t, programs.Fanmail, site)
			require.NoError(t, l.run(ctx, turns))
			require.NoError(t, l.await(ctx))
			code, report := audit(ctx, t, programs.Fanmail, site)
			require.Zero(t, code, report)
		}
		server.Stop(ctx)
	}
	refused := testenv.Exec(ctx, t, map[string]string{"data": site.Data, "addr": site.Addr}, older, "serve")
	require.Equal(t, 1, refused.Code(ctx))
	require.Contains(t, refused.Stderr(), "unknown format version")
}

// upgrade raises the level. A process of level 2 or higher keeps it from rising for a minute after its death.
func upgrade(ctx context.Context, t *testing.T, program string, site *testenv.Site) {
	t.Helper()
	for refusals := 0; ; refusals++ {
		command := testenv.Exec(ctx, t, nil, program, "admin", "upgrade", "--yes", "--server", site.URL())
		if command.Code(ctx) == 0 {
			t.Logf("the upgrade was refused %d times", refusals)
			return
		}
		require.Contains(t, command.Stderr(), "upgrade or stop it, and repeat this a minute later")
		require.NoError(t, pause(ctx))
	}
}

// newClient returns a client that repeats calls for as long as the test runs, because a busy server answers 503.
func newClient(t *testing.T, site *testenv.Site) *client.Client {
	t.Helper()
	const tries = 1000
	c, err := client.New(site.URL(), client.Options{Tries: tries})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// delivered returns how many entries the fan-out of a server has appended to inboxes.
func delivered(ctx context.Context, t *testing.T, site *testenv.Site) (entries int) {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, site.URL()+"/metrics", http.NoBody)
	require.NoError(t, err)
	answer, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer func() { _ = answer.Body.Close() }()
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "fanmail_deliveries_total{") {
			n, err := strconv.Atoi(lines.Text()[strings.LastIndexByte(lines.Text(), ' ')+1:])
			require.NoError(t, err)
			entries += n
		}
	}
	_, _ = io.Copy(io.Discard, answer.Body)
	return entries
}

// audit runs "fanmail audit" until the database answers in time, and returns its exit code and output.
func audit(ctx context.Context, t *testing.T, program string, site *testenv.Site) (code int, report string) {
	t.Helper()
	for {
		command := testenv.Exec(ctx, t, nil, program, "audit", "--json", "--server", site.URL())
		code = command.Code(ctx)
		if !strings.Contains(command.Stderr(), "try again") {
			return code, command.Stdout()
		}
	}
}

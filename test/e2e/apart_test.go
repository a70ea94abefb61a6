package e2e_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/test/testenv"
)

// killEvery is how long a process of a role lives on average, divided by how many there are.
const killEvery = 5 * time.Second

// TestRolesApart publishes to roles that run apart, kills one of their processes at random every few seconds, and twice the database
// server, lets users come back meanwhile, and finds in the end that every inbox is exactly what it should be.
func TestRolesApart(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes a minute")
	}
	const databaseKills = 2
	ctx := bounded(t, 50*time.Minute)
	database := testenv.StartMongoDB(t)
	w := newWorld(ctx, t, embedded, impatient(apart, map[string]string{"fanout.express_max": "20", "fanout.batch_owners": "40"}))
	w.on, w.programs = apart, plain
	w.site.UseMongoDB(ctx, t, w.programs.Fanmail, database.URI(), "fanmail")
	roles := w.site.StartApart(ctx, t, w.programs)
	total := w.mixedTrace(ctx)
	testenv.Run(ctx, t, w.programs.Fanmail, "import", "users", w.users, "--rehydrator", roles.Rehydrator())
	testenv.Run(ctx, t, w.programs.Fanmail, "import", "follows", w.follows, "--publisher", roles.Publisher())

	driver := w.drive(ctx, "--connections", "32", "--timeout", "45m")
	back := w.comeBack(ctx)
	ticker := time.NewTicker(killEvery)
	defer ticker.Stop()
	for kills := 0; driver.Running() || back.Running() || kills < databaseKills*2; kills++ {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			require.Fail(t, "publishing does not come to an end")
		}
		if kills%2 == 1 && kills/2 < databaseKills {
			database.Kill()
			database.Start()
			t.Logf("the database server was killed: %d messages accepted", w.accepted())
		}
		t.Logf("%s was killed: %d messages accepted", roles.KillOne(ctx), w.accepted())
	}
	require.Zero(t, driver.Code(ctx), "publishing failed")
	t.Log(driver.Stdout())
	require.Zero(t, back.Code(ctx), "coming back failed")
	roles.AwaitReady(ctx)
	require.Equal(t, total, w.check(ctx).Messages)
	w.requireSoundInboxes(ctx)
	roles.Stop(ctx)
}

// comeBack begins to let the users of the mail trace come back.
func (w *world) comeBack(ctx context.Context) *testenv.Process {
	w.Helper()
	log := filepath.Join(w.dir, "logins.ndjson")
	w.logins = append(w.logins, log)
	return testenv.Exec(ctx, w.T, nil, programs.Driver, "login", "--server", w.site.URL(), "--file", w.testdata("email-eu.last-seen.tsv"),
		"--log", log, "--by", "either", "--connections", "4", "--timeout", "45m")
}

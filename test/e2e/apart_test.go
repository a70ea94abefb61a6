//go:build long && mongod

package e2e_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/test/testenv"
)

// frozenFor is how long a process is frozen. It is longer than the lease of work.
const frozenFor = 3 * time.Second

// TestRolesApart publishes to separate roles whose clocks disagree. Every few seconds it kills or freezes a process, kills the NATS
// server, or repeats events. Twice it kills the database server. Meanwhile users return. At the end every inbox must be exactly
// right.
func TestRolesApart(t *testing.T) {
	t.Parallel()
	ctx := bounded(t, 50*time.Minute)
	database := testenv.StartMongoDB(t)
	w := newWorld(ctx, t, embedded, impatient(map[string]string{"fanout.direct_max": "20", "fanout.batch_owners": "40"}))
	w.on = apart
	w.site.Clocks, w.checking = earlyClock, checkingWrongClocks
	w.site.Provoked = append(w.site.Provoked, bus.ErrUnavailable)
	w.site.UseMongoDB(ctx, t, w.programs.Fanmail, database.URI(), "fanmail")
	roles := w.site.StartApart(ctx, t, w.programs)
	total := w.mixedTrace(ctx)
	testenv.Run(ctx, t, w.programs.Fanmail, "import", "users", w.users, "--rehydrator", roles.Rehydrator())
	testenv.Run(ctx, t, w.programs.Fanmail, "import", "follows", w.follows, "--publisher", roles.Publisher())
	w.site.Clocks = wrongClocks

	driver := w.drive(ctx, "--connections", "32", "--timeout", "45m")
	back := w.comeBack(ctx)
	w.underFire(ctx, []fault{
		{"a process is killed, and started with another clock", 6, func(ctx context.Context) { t.Logf("it was a %s", roles.KillOne(ctx)) }},
		{"the database server is killed", 0, func(context.Context) {
			database.Kill()
			database.Start()
		}},
		{"the NATS server is killed", 1, roles.RestartNATS},
		{"the database server is killed again", 0, func(context.Context) {
			database.Kill()
			database.Start()
		}},
		{"a process is frozen", 2, func(context.Context) { t.Logf("it was a %s", roles.FreezeOne(frozenFor)) }},
		{"events are emitted again", 1, func(ctx context.Context) { w.emitAgain(ctx, roles.NATS()) }},
	}, driver, back)
	require.Zero(t, driver.Code(ctx), "publishing failed")
	t.Log(driver.Stdout())
	require.Zero(t, back.Code(ctx), "coming back failed")
	roles.AwaitReady(ctx)
	require.Equal(t, total, w.check(ctx).Messages)
	w.requireSoundInboxes(ctx)
	roles.Stop(ctx)
}

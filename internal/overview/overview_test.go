package overview_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/internal/clocks"
	"github.com/fanmail/fanmail/internal/natsbus"
	"github.com/fanmail/fanmail/internal/natsbus/natsserver"
	"github.com/fanmail/fanmail/internal/overview"
	"github.com/fanmail/fanmail/internal/pebblestore"
	"github.com/fanmail/fanmail/internal/rehydrate"
	"github.com/fanmail/fanmail/internal/retention"
	"github.com/fanmail/fanmail/internal/settings"
	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/internal/tally"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
	"github.com/fanmail/fanmail/test/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// world is an overview of a real store and bus. The rows of processes are the test's.
type world struct {
	sources     overview.Sources
	bus         *natsbus.Bus
	db          *pebblestore.DB
	mu          sync.Mutex
	now         time.Time
	rows, older []settings.Process
	totals      tally.Counters
	service     *overview.Service
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{now: messagetest.Epoch}
	clock := func() time.Time {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.now
	}
	var err error
	w.db, err = pebblestore.Open(t.Context(), "store", pebblestore.Options{Partitions: 4, FS: vfs.NewMem(), Now: clock, Logger: zerolog.Nop()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.db.Close()) })
	server, err := natsserver.Start(t.Context(), natsserver.Options{Dir: t.TempDir(), Logger: zerolog.Nop()})
	require.NoError(t, err)
	t.Cleanup(server.Stop)
	w.bus, err = natsbus.Connect(t.Context(), natsbus.Options{
		Server: server, Partitions: 4, Lease: time.Minute, Replicas: 1, Logger: zerolog.Nop(),
		PublishedBytes: 1 << 20, FanoutBytes: 1 << 20, LoginBytes: 1 << 20, DeadLetterBytes: 1 << 20,
	})
	require.NoError(t, err)
	t.Cleanup(w.bus.Close)
	walker := retention.New(retention.Stores{Rounds: w.db.Retention()}, nil, retention.Options{
		Retention: func() userstate.Retention { return userstate.Retention{} }, Now: clock, Logger: zerolog.Nop(),
	})
	w.sources = overview.Sources{
		Bus:       w.bus,
		Processes: func(context.Context) ([]settings.Process, error) { return w.rows, nil },
		Rows:      func() (_, _ []settings.Process, _ tally.Counters) { return w.rows, w.older, w.totals },
		Due:       w.db.Users().Due, Load: func() rehydrate.Load { return rehydrate.Load{} },
		Clocks:    func() []clocks.Reading { return nil },
		Retention: walker.Status, Round: w.db.Retention().Load, Now: clock,
	}
	w.rows = []settings.Process{{Name: "a", Role: "publisher+rehydrator", State: settings.Running, Version: "v1", Seen: w.now}}
	return w
}

// look returns the overview after the last answer has grown old.
func (w *world) look(t *testing.T) client.Overview {
	t.Helper()
	if w.service == nil {
		w.service = overview.New(w.sources)
	}
	w.mu.Lock()
	w.now = w.now.Add(time.Second)
	w.mu.Unlock()
	return w.service.Overview(t.Context())
}

func kinds(o client.Overview) (kinds []string) {
	for _, w := range o.Warnings {
		kinds = append(kinds, w.Kind)
	}
	return kinds
}

// A role that no process has is a warning, until one reports itself that is neither dead nor stopping.
func TestRolesThatRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	require.Equal(t, []string{client.WarnNoFanoutWorker}, kinds(w.look(t)))
	worker := settings.Process{Name: "b", Role: "fanout-worker", State: settings.Stopping, Version: "v1", Seen: w.now}
	w.rows = append(w.rows, worker)
	require.Equal(t, []string{client.WarnNoFanoutWorker}, kinds(w.look(t)))
	w.rows[1].State = settings.Running
	require.Empty(t, kinds(w.look(t)))
	w.rows[1].Version = "v2"
	require.Equal(t, []string{client.WarnVersions}, kinds(w.look(t)))
	w.rows[0].Seen = w.rows[0].Seen.Add(time.Minute)
	o := w.look(t)
	require.Equal(t, []string{client.WarnNoFanoutWorker}, kinds(o))
	require.True(t, o.Processes[0].Alive)
	require.False(t, o.Processes[1].Alive)
}

// An answer is shown for a second. The rates are those between the last two reports.
func TestLanes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.older = w.rows
	w.rows = []settings.Process{w.rows[0], {Name: "b", Role: "fanout-worker", State: settings.Running, Version: "v1", Seen: w.now}}
	w.rows[0].Seen = w.now.Add(10 * time.Second)
	w.rows[0].Counters = tally.Counters{Accepted: 50, Delivered: 200, Finished: tally.Lanes{Direct: 30, Bulk: 5}}
	var tasks []event.Task
	for i := range 3 {
		tasks = append(tasks, event.Task{Version: event.Version, ID: messagetest.ID(i + 1), From: "ann", Lane: event.Bulk, Partition: i})
	}
	require.NoError(t, w.bus.EmitTasks(t.Context(), tasks))
	ref := message.Ref{ID: messagetest.ID(9), From: "ann"}
	require.NoError(t, w.bus.EmitPublished(t.Context(), []event.Published{event.NewPublished(ref)}, true))
	o := w.look(t)
	require.Empty(t, kinds(o))
	for i := range o.Lanes {
		o.Lanes[i].OldestSeconds = 0 // by the clock of the server
	}
	require.Equal(t, []client.LaneLoad{
		{Lane: "routing", Waiting: 1, Rate: new(3.0), About: true, AtLeast: true, SecondsToEmpty: new(1.0 / 3)},
		{Lane: "direct", Rate: new(3.0), About: true},
		{Lane: "medium", Rate: new(0.0), About: true},
		{Lane: "bulk", Waiting: 3, Rate: new(0.5), About: true, SecondsToEmpty: new(6.0)},
	}, o.Lanes)
	require.Equal(t, new(5.0), o.Processes[0].AcceptedRate)
	require.Equal(t, new(20.0), o.Processes[0].DeliveredRate)
	require.Nil(t, o.Processes[1].DeliveredRate, "it has reported once")
	w.rows = nil
	require.Equal(t, o, w.service.Overview(t.Context()))
}

// Dead letters are counted by stage and reason; damaged users have a subject each.
func TestDeadLetters(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	require.Equal(t, &client.DeadLetterCount{ByStage: map[string]int64{}}, w.look(t).DeadLetters)
	for _, subject := range []string{"fanmail.v1.login", "fanmail.v1.fanout.bulk.1", "fanmail.v1.fanout.bulk.2"} {
		require.NoError(t, w.bus.DeadLetter(t.Context(), event.DeadLetter{Version: event.Version, Reason: event.ReasonPanic, Subject: subject}))
	}
	for _, user := range []message.UserID{"ann", "bob"} {
		_, err := w.bus.FileDamaged(t.Context(), event.Damaged{Version: event.Version, User: user, Since: w.now, Until: w.now}, "torn")
		require.NoError(t, err)
	}
	o := w.look(t)
	require.Equal(t, &client.DeadLetterCount{
		Total: 5, ByStage: map[string]int64{"login": 1, "bulk": 2, "damaged": 2},
		ByReason: map[string]int64{event.ReasonPanic: 3, event.ReasonDamaged: 2},
	}, o.DeadLetters)
	require.Contains(t, kinds(o), client.WarnDeadLetters)
	require.NoError(t, w.bus.Drop(t.Context(), 1))
	require.Equal(t, map[string]int64{event.ReasonPanic: 2, event.ReasonDamaged: 2}, w.look(t).DeadLetters.ByReason)
}

// hung is a bus that does not answer how many dead letters it has.
type hung struct{ overview.Bus }

func (hung) Letters(ctx context.Context) (bus.Letters, error) {
	<-ctx.Done()
	return bus.Letters{}, ctx.Err()
}

// A source that hangs or fails takes only its own part away.
func TestPartsFailAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.sources.Bus = hung{w.bus}
	w.sources.Retention = func(context.Context) (retention.Status, error) { return retention.Status{}, errors.New("no store") }
	w.sources.Clocks = func() []clocks.Reading {
		return []clocks.Reading{{Server: "store", Ahead: -90 * time.Second, Within: time.Second, Off: true}}
	}
	w.sources.Room = func() error { return errors.New("the disk is full") }
	state := userstate.State{User: "bob", LastViewed: w.now, Horizon: w.now, Mark: &userstate.Mark{From: w.now}, Lease: userstate.Lease{
		Token: "elsewhere", Since: w.now.Add(-time.Minute), Until: w.now.Add(time.Hour),
	}}
	_, err := w.db.Users().Step(t.Context(), []userstate.Step{{From: userstate.State{User: "bob"}, To: state}})
	require.NoError(t, err)
	o := w.look(t)
	require.Nil(t, o.DeadLetters)
	require.Nil(t, o.Retention)
	require.Len(t, o.Lanes, 4)
	require.Len(t, o.Processes, 1)
	require.Equal(t, &client.RehydrationLoad{Waiting: 1, OldestSeconds: 61, About: true}, o.Rehydrations)
	require.Equal(t, []client.ClockReading{{Server: "store", AheadSeconds: -90, WithinSeconds: 1, About: true, Off: true}}, o.Clocks)
	require.Equal(t, []string{client.WarnUnavailable, client.WarnUnavailable, client.WarnNoFanoutWorker, client.WarnClock, client.WarnDisk}, kinds(o))
	require.Contains(t, o.Warnings[0].Text, "dead_letters")
	require.Contains(t, o.Warnings[1].Text, "retention cannot be shown")
}

// What another dormant_after would have done follows from how long users were away.
func TestDormancy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.totals = tally.Counters{
		Skipped: tally.Skips{Dormant: 7, NeverSeen: 2, Blocked: 1, Bytes: 900}, RebuiltUsers: 3, RebuiltMessages: 4,
		Away: tally.Steps{100, 10, 0, 5, 11: 20}, Returned: tally.Steps{0, 8, 4, 7: 2, 11: 1},
	}
	service := overview.New(w.sources)
	d, err := service.Dormancy(t.Context())
	require.NoError(t, err)
	require.Nil(t, d.Users, "no round has ended")
	require.Equal(t, client.Skipped{Dormant: 7, NeverSeen: 2, Blocked: 1, Bytes: 900, About: true}, d.Skipped)
	require.Equal(t, client.Rebuilt{Users: 3, Messages: 4, About: true}, d.Rebuilt)
	row := func(after string, copies, rebuilds int64) client.DormancyIf {
		return client.DormancyIf{DormantAfter: after, Copies: copies, Rebuilds: rebuilds, About: true}
	}
	require.Equal(t, []client.DormancyIf{
		row("1h", 100, 15), row("6h", 110, 7), row("1d", 110, 3), row("2d", 115, 3), row("4d", 115, 3), row("7d", 115, 3), row("14d", 115, 3),
		row("30d", 115, 1), row("60d", 115, 1), row("90d", 115, 1), row("180d", 115, 1), row("never", 135, 0),
	}, d.If)
	require.NoError(t, w.db.Retention().Replace(t.Context(), retention.Round{}, retention.Round{
		Began: w.now, Ended: true, Number: 1, Counted: retention.Census{Active: 3, Dormant: 4},
	}))
	d, err = service.Dormancy(t.Context())
	require.NoError(t, err)
	require.Equal(t, &client.DormancyUsers{Active: 3, Dormant: 4, About: true}, d.Users)
}

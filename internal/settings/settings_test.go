package settings_test

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/config"
	"github.com/fanmail/fanmail/internal/pebblestore"
	"github.com/fanmail/fanmail/internal/settings"
	"github.com/fanmail/fanmail/internal/tally"
	"github.com/fanmail/fanmail/internal/telemetry/telemetrytest"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

const partitions = 2

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// clock is the clock of a store and of its processes.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// world is a store that several processes use.
type world struct {
	*pebblestore.DB
	clock *clock
}

// newWorld returns a store that has recorded the default settings.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{clock: &clock{now: epoch}}
	var err error
	w.DB, err = pebblestore.Open(t.Context(), "store", pebblestore.Options{
		Partitions: partitions, FS: vfs.NewMem(), Settings: config.Default().Recorded().Texts(), Now: w.clock.Now, Logger: zerolog.Nop(),
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.Close()) })
	return w
}

// process is a process on the store.
type process struct {
	*settings.Current
	*settings.Service
	*tally.Tally
	log *telemetrytest.Buffer
}

// newProcess returns a process that has not read the record yet.
func (w *world) newProcess(t *testing.T, name string, change func(*config.Config)) process {
	t.Helper()
	cfg := config.Default()
	if change != nil {
		change(&cfg)
	}
	proposed := cfg.Recorded()
	p := process{log: &telemetrytest.Buffer{}, Tally: &tally.Tally{}}
	options := settings.Options{
		Configured: proposed.Texts(), Process: settings.Process{Name: name, Role: "rehydrator", Host: name}, Logger: zerolog.New(p.log), Tally: p.Tally,
		Parse: func(changed map[string]string) (settings.Values, error) {
			r, err := proposed.With(changed)
			if invalid, ok := errors.AsType[*config.InvalidError](err); ok {
				err = &message.InvalidError{Field: invalid.Key, Reason: invalid.Reason}
			}
			return settings.Values{
				Rules:  userstate.Rules{DormantAfter: r.DormantAfter, ClockTolerance: r.ClockTolerance, PublishSlack: r.PublishSlack},
				KeyTTL: r.KeyTTL, Texts: r.Texts(),
				Retention: userstate.Retention{MaxAge: r.MaxAge, Newest: int64(r.Newest)}, Canonical: r.Canonical,
			}, err
		},
	}
	if cfg.Store == config.StoreMongoDB {
		options.Process.Timeout = cfg.MongoDB.Timeout
	}
	var err error
	p.Current, err = settings.New(options)
	require.NoError(t, err)
	p.Service = settings.NewService(p.Current, settings.ServiceOptions{Now: w.clock.Now})
	return p
}

func (w *world) process(t *testing.T, name string, change func(*config.Config)) process {
	t.Helper()
	p := w.newProcess(t, name, change)
	require.NoError(t, p.Open(t.Context(), w.Settings()))
	return p
}

func (p process) change(t *testing.T, key, value string) bool {
	t.Helper()
	changed, err := p.Change(t.Context(), key, value, false, true)
	require.NoError(t, err)
	return changed
}

// longer configures what differs from the record of newWorld.
func longer(c *config.Config) { c.DormantAfter, c.Idempotency.TTL = 60*24*time.Hour, 48*time.Hour }

func TestAProcessFollowsTheRecord(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.process(t, "b", longer)
	require.Equal(t, 30*24*time.Hour, b.Rules().DormantAfter)
	require.Equal(t, 24*time.Hour, b.KeyTTL())
	lines := func() int {
		return strings.Count(b.log.String(), "the configuration differs from the recorded setting")
	}
	require.Equal(t, 2, lines())
	require.NoError(t, b.Load(t.Context()))
	require.Equal(t, 2, lines(), "once per start")
	a := w.process(t, "a", nil)
	require.True(t, a.change(t, "dormant_after", "90d"))
	require.False(t, a.change(t, "dormant_after", "2160h"))
	require.Equal(t, 90*24*time.Hour, a.Rules().DormantAfter, "at once")
	require.NoError(t, b.Load(t.Context()))
	require.NoError(t, b.Load(t.Context()))
	require.Equal(t, 90*24*time.Hour, b.Rules().DormantAfter)
	require.Equal(t, 3, lines(), "and once per change")
	a.change(t, "dormant_after", "60d")
	require.NoError(t, b.Load(t.Context()))
	require.Equal(t, 3, lines(), "it does not differ any more")
	entries, err := b.List(t.Context())
	require.NoError(t, err)
	require.Equal(t, settings.Entry{Key: "dormant_after", Recorded: "1440h", Configured: "1440h", Since: epoch}, entries[1])
}

func TestChangeRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.process(t, "a", nil)
	for name, test := range map[string]struct{ key, value, says string }{
		"an unknown key":          {"addr", ":1", "addr is no recorded setting: those are dormant_after, clock_tolerance, publish_slack, idempotency.ttl, retention.max_age, retention.newest, retention.canonical"},
		"a value without a unit":  {"dormant_after", "30", "is not a duration such as 500ms, 30s, 5m, 720h or 30d"},
		"values that do not fit":  {"clock_tolerance", "5m", "publish_slack is 2m: it must be more than half of clock_tolerance"},
		"a value out of bounds":   {"retention.newest", "-1", "retention.newest is -1: it must be 0, or from 1 to 10000000"},
		"an empty value":          {"dormant_after", "", "is not a duration"},
		"keys forgotten too soon": {"idempotency.ttl", "1m", "idempotency.ttl is 1m: it must be at least publish_slack, which is 2m"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := a.Change(t.Context(), test.key, test.value, false, true)
			require.ErrorAs(t, err, new(*message.InvalidError))
			require.ErrorContains(t, err, test.says)
		})
	}
}

// TestAChangeMustFitTheProcesses lowers the tolerance below what the timeout of a process that runs needs.
func TestAChangeMustFitTheProcesses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mongodb := func(timeout time.Duration) func(*config.Config) {
		return func(c *config.Config) {
			c.Store, c.MongoDB.URI, c.MongoDB.Timeout = config.StoreMongoDB, "mongodb://x", timeout
		}
	}
	slow := w.process(t, "slow", mongodb(10*time.Second))
	w.clock.pass(time.Minute)
	fast := w.process(t, "fast", mongodb(5*time.Second))
	_, err := fast.Change(t.Context(), "clock_tolerance", "39s", true, true)
	require.ErrorAs(t, err, new(*settings.MisfitError))
	require.EqualError(t, err, "mongodb.timeout 10s of the process slow (rehydrator) needs clock_tolerance of at least 40s: "+
		"restart it with a lower value, or repeat this a minute after it has stopped")
	fast.change(t, "clock_tolerance", "40s")
	w.clock.pass(time.Millisecond)
	fast.change(t, "clock_tolerance", "39s")

	require.NoError(t, slow.Load(t.Context()))
	require.Equal(t, 1, strings.Count(slow.log.String(), "the process will not start again"))
	again := w.newProcess(t, "again", mongodb(10*time.Second))
	err = again.Open(t.Context(), w.Settings())
	require.NotContains(t, again.log.String(), "will not start again", "the error says it")
	require.ErrorAs(t, err, new(*settings.UnfitError))
	require.EqualError(t, err, "clock_tolerance is recorded as 39s, and mongodb.timeout 10s of this process needs at least 40s: "+
		"lower that, or run fanmail admin settings clock_tolerance 40s")
	fast.change(t, "clock_tolerance", "40s")
	w.process(t, "again", mongodb(10*time.Second))
}

// A process that has ended still counts as running for at most 30 s by its last report.
func TestRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.process(t, "first", nil)
	w.clock.pass(30 * time.Second)
	p := w.newProcess(t, "second", nil)
	require.False(t, p.Runs("rehydrator"), "not opened")
	require.NoError(t, p.Open(t.Context(), w.Settings()))
	require.True(t, p.Runs("rehydrator"))
	require.False(t, p.Runs("worker"))
	w.worker(t)
	require.False(t, p.Runs("worker"), "it has not looked since")
	require.NoError(t, p.Open(t.Context(), w.Settings()))
	require.True(t, p.Runs("worker"))
	w.clock.pass(30*time.Second + time.Millisecond)
	require.NoError(t, p.Open(t.Context(), w.Settings()))
	require.False(t, p.Runs("worker"))
	require.True(t, p.Runs("rehydrator"))
}

// worker reports a process with several roles.
func (w *world) worker(t *testing.T) {
	t.Helper()
	_, err := w.Settings().Report(t.Context(), settings.Process{Name: "worker", Role: "publisher+worker"})
	require.NoError(t, err)
}

func TestChangesByManyLoseNone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	changes := map[string]string{"idempotency.ttl": "48h", "publish_slack": "3m", "dormant_after": "20d", "clock_tolerance": "1m"}
	var wg sync.WaitGroup
	for key, value := range changes {
		p := w.process(t, key, nil)
		wg.Go(func() {
			if changed, err := p.Change(t.Context(), key, value, false, true); err != nil || !changed {
				t.Errorf("%s: %v, %v", key, changed, err)
			}
		})
	}
	wg.Wait()
	record, err := w.Settings().Load(t.Context())
	require.NoError(t, err)
	for key := range maps.Keys(changes) {
		require.NotEqual(t, config.Default().Recorded().Texts()[key], record.Settings[key].Value, key)
	}
}

// brokenStore fails while it is broken, and counts the calls.
type brokenStore struct {
	settings.Store
	mu             sync.Mutex
	broken         bool
	loads, reports int
}

func (s *brokenStore) count(n *int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	*n++
	if s.broken {
		return message.ErrUnavailable
	}
	return nil
}

func (s *brokenStore) Load(context.Context) (settings.Record, error) {
	return settings.First(config.Default().Recorded().Texts(), epoch), s.count(&s.loads)
}

func (*brokenStore) Totals(context.Context) (settings.Totals, error) { return settings.Totals{}, nil }

func (*brokenStore) Processes(context.Context) ([]settings.Process, error) { return nil, nil }

func (s *brokenStore) Report(context.Context, settings.Process) (time.Time, error) {
	return epoch, s.count(&s.reports)
}

// TestPolling counts reads and reports in a minute of a clock that only waiting advances.
func TestPolling(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.newProcess(t, "a", nil)
	synctest.Test(t, func(t *testing.T) {
		store := &brokenStore{}
		require.NoError(t, p.Open(t.Context(), store))
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { p.Poll(ctx, ctx) })
		wg.Go(func() { p.Report(ctx, ctx) })
		time.Sleep(time.Minute + time.Second)
		synctest.Wait()
		require.Equal(t, 1+30, store.loads)
		require.Equal(t, 1+6, store.reports)
		store.mu.Lock()
		store.broken = true
		store.mu.Unlock()
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, 1, strings.Count(p.log.String(), "the last ones hold"))
		require.Equal(t, 30*24*time.Hour, p.Rules().DormantAfter)
		stop()
		wg.Wait()
	})
}

// A change by which messages expire has to be confirmed. One by which fewer expire need not.
func TestExpiryIsConfirmed(t *testing.T) {
	t.Parallel()
	p := newWorld(t).process(t, "a", nil)
	for _, change := range []struct {
		key, value string
		confirm    bool
	}{
		{"retention.max_age", "30d", true},
		{"retention.max_age", "40d", false},
		{"retention.max_age", "20d", true},
		{"retention.max_age", "0", false},
		{"retention.newest", "100", true},
		{"retention.newest", "200", false},
		{"retention.newest", "150", true},
		{"retention.newest", "0", false},
		{"retention.canonical", "20d", false},
		{"retention.max_age", "30d", true},
		{"retention.canonical", "10d", true},
		{"retention.canonical", "15d", false},
	} {
		changed, err := p.Change(t.Context(), change.key, change.value, true, false)
		require.NoError(t, err)
		require.True(t, changed, "a dry run of %s %s", change.key, change.value)
		before := p.Retention()
		_, err = p.Change(t.Context(), change.key, change.value, false, false)
		if change.confirm {
			_, unconfirmed := errors.AsType[*settings.UnconfirmedError](err)
			require.True(t, unconfirmed, "%s %s: %v", change.key, change.value, err)
			require.Equal(t, before, p.Retention())
			p.change(t, change.key, change.value)
			continue
		}
		require.NoError(t, err, "%s %s", change.key, change.value)
	}
}

// TestKeysOutliveALowerTTL lowers how long idempotency keys are remembered. Those that were reserved before last as long as they were to.
func TestKeysOutliveALowerTTL(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.process(t, "a", nil)
	p.change(t, "idempotency.ttl", "48h")
	require.Zero(t, p.KeysUntil(), "a higher one")
	p.change(t, "idempotency.ttl", "12h")
	const spare = 2*time.Minute + time.Minute // clock_tolerance, and until all processes know the change
	until := epoch.Add(48*time.Hour + spare)
	require.Equal(t, until, p.KeysUntil())
	w.clock.pass(time.Hour)
	p.change(t, "idempotency.ttl", "6h")
	require.Equal(t, until, p.KeysUntil(), "the keys of before last for longer")
	w.clock.pass(100 * time.Hour)
	p.change(t, "idempotency.ttl", "3h")
	require.Equal(t, epoch.Add(101*time.Hour+6*time.Hour+spare), w.process(t, "b", nil).KeysUntil())
}

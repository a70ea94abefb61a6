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

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/config"
	"github.com/fanmail/fanmail/internal/pebblestore"
	"github.com/fanmail/fanmail/internal/settings"
	"github.com/fanmail/fanmail/internal/storetest/messagetest"
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

// newWorld returns a store of level 1, or a new one that has recorded the default settings.
func newWorld(t *testing.T, level int) *world {
	t.Helper()
	w := &world{clock: &clock{now: epoch}}
	files := vfs.NewMem()
	if level == settings.Unrecorded { // as the release before wrote it
		engine, err := pebble.Open("store", &pebble.Options{FS: files})
		require.NoError(t, err)
		require.NoError(t, engine.Set([]byte("!"), []byte{2, 0xa2, 1, partitions, 2, 0x18, 50}, pebble.Sync))
		require.NoError(t, engine.Close())
	}
	var err error
	w.DB, err = pebblestore.Open(t.Context(), "store", pebblestore.Options{
		Partitions: partitions, FS: files, Settings: config.Default().Recorded().Texts(), Now: w.clock.Now, Logger: zerolog.Nop(),
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.Close()) })
	return w
}

// process is a process on the store.
type process struct {
	*settings.Current
	*settings.Service
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
	p := process{log: &telemetrytest.Buffer{}}
	options := settings.Options{
		Configured: proposed.Texts(), Process: settings.Process{Name: name, Role: "rehydrator"}, Logger: zerolog.New(p.log),
		Parse: func(changed map[string]string) (settings.Values, error) {
			r, err := proposed.With(changed)
			if invalid, ok := errors.AsType[*config.InvalidError](err); ok {
				err = &message.InvalidError{Field: invalid.Key, Reason: invalid.Reason}
			}
			return settings.Values{
				Rules:  userstate.Rules{DormantAfter: r.DormantAfter, ClockTolerance: r.ClockTolerance, PublishSlack: r.PublishSlack},
				KeyTTL: r.KeyTTL, BucketSize: r.Slots(), Texts: r.Texts(), Numbers: r.Numbers(),
				Retention: userstate.Retention{MaxAge: r.MaxAge, Newest: int64(r.Newest)}, Canonical: r.Canonical,
			}, err
		},
	}
	for _, need := range cfg.Needs() {
		options.Process.Needs = append(options.Process.Needs, settings.Need(need))
	}
	var err error
	p.Current, err = settings.New(options)
	require.NoError(t, err)
	p.Service = settings.NewService(p.Current, settings.ServiceOptions{Now: w.clock.Now, Keys: w.Keys().Latest})
	return p
}

func (w *world) process(t *testing.T, name string, change func(*config.Config)) process {
	t.Helper()
	p := w.newProcess(t, name, change)
	require.NoError(t, p.Open(t.Context(), w.Settings()))
	return p
}

func (p process) change(t *testing.T, key, value string) settings.Effect {
	t.Helper()
	effect, err := p.Change(t.Context(), key, value, false, true)
	require.NoError(t, err)
	return effect
}

// longer configures what differs from the record of newWorld.
func longer(c *config.Config) { c.DormantAfter, c.Idempotency.TTL = 60*24*time.Hour, 48*time.Hour }

func TestTheConfigurationHoldsBeforeTheUpgrade(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings.Unrecorded)
	a, b := w.process(t, "a", nil), w.process(t, "b", longer)
	require.Equal(t, 30*24*time.Hour, a.Rules().DormantAfter)
	require.Equal(t, 60*24*time.Hour, b.Rules().DormantAfter)
	require.Equal(t, settings.Unrecorded, b.Level())
	require.Empty(t, b.log.String())
	entries, err := b.List(t.Context())
	require.NoError(t, err)
	require.Equal(t, settings.Entry{Key: "dormant_after", Configured: "1440h"}, entries[1])
	_, err = b.Change(t.Context(), "dormant_after", "1h", true, true)
	require.Equal(t, &settings.LevelError{Level: 1, Needed: 2}, err)
	require.EqualError(t, err, "the database is of format level 1, and this needs 2: run fanmail admin upgrade")
	require.Equal(t, err, settings.Require(b.Level(), settings.Recorded))

	_, err = b.Upgrade(t.Context(), false)
	require.ErrorAs(t, err, new(*settings.UnconfirmedError))
	require.NoError(t, a.Load(t.Context()))
	require.Equal(t, settings.Unrecorded, a.Level())
	level, err := b.Upgrade(t.Context(), true)
	require.NoError(t, err)
	require.Equal(t, settings.Highest, level)
	require.NoError(t, settings.Require(level, settings.Recorded))
	require.NoError(t, a.Load(t.Context()))
	require.Equal(t, 60*24*time.Hour, a.Rules().DormantAfter, "that of the process that carried out the upgrade")
	require.Equal(t, 48*time.Hour, a.KeyTTL())
	require.Equal(t, settings.Highest, a.Level())
	require.Contains(t, a.log.String(), `"key":"dormant_after","recorded":"1440h","configured":"720h","command":"fanmail admin settings dormant_after 720h"`)
	level, err = a.Upgrade(t.Context(), false)
	require.NoError(t, err, "it was done")
	require.Equal(t, settings.Highest, level)
}

func TestTheUpgradeWaitsForOldProcesses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings.Unrecorded)
	_, err := w.Settings().Report(t.Context(), settings.Process{Name: "old", Role: "publisher", Level: 1})
	require.NoError(t, err)
	w.clock.pass(time.Minute)
	a := w.process(t, "a", nil)
	_, err = a.Upgrade(t.Context(), true)
	var old *settings.TooOldError
	require.ErrorAs(t, err, &old)
	require.EqualError(t, err, "the process old (publisher), last seen at 2026-01-02T03:04:05Z, knows format level 1 only, and this needs 5: "+
		"upgrade or stop it, and repeat this a minute later")
	w.clock.pass(time.Millisecond)
	_, err = a.Upgrade(t.Context(), true)
	require.NoError(t, err)
}

// TestTheUpgradeFromLevel2 keeps what is recorded. No process has to be confirmed, because processes of level 2 report themselves.
func TestTheUpgradeFromLevel2(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings.Highest)
	w.process(t, "a", nil).change(t, "dormant_after", "90d")
	record, err := w.Settings().Load(t.Context())
	require.NoError(t, err)
	second := record
	second.Level = settings.Recorded
	require.NoError(t, w.Settings().Replace(t.Context(), record, second))

	b := w.process(t, "b", longer)
	require.Equal(t, settings.Recorded, b.Level())
	require.Equal(t, &settings.LevelError{Level: 2, Needed: 3}, settings.Require(b.Level(), settings.Retention))
	level, err := b.Upgrade(t.Context(), false)
	require.NoError(t, err)
	require.Equal(t, settings.Highest, level)
	require.Equal(t, settings.Highest, b.Level())
	require.Equal(t, 90*24*time.Hour, b.Rules().DormantAfter)
	require.Equal(t, 24*time.Hour, b.KeyTTL())
}

// atLevel2 takes the store back to level 2.
func (w *world) atLevel2(t *testing.T) {
	t.Helper()
	record, err := w.Settings().Load(t.Context())
	require.NoError(t, err)
	second := record
	second.Level, second.Settings = settings.Recorded, maps.Clone(record.Settings)
	for _, key := range []string{settings.BucketSizeKey, settings.MaxAgeKey, settings.NewestKey, settings.CanonicalKey} {
		delete(second.Settings, key)
	}
	require.NoError(t, w.Settings().Replace(t.Context(), record, second))
}

// TestTheBucketSizeNeedsItsLevel has buckets of 50 until the upgrade, which records the configured size.
func TestTheBucketSizeNeedsItsLevel(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings.Highest)
	w.atLevel2(t)
	sized := func(c *config.Config) { c.Inbox.BucketSize = 20 }
	a := w.process(t, "a", sized)
	require.Equal(t, 50, a.BucketSize())
	_, err := a.Change(t.Context(), settings.BucketSizeKey, "20", false, true)
	require.Equal(t, &settings.LevelError{Level: 2, Needed: 3}, err)
	a.change(t, "dormant_after", "60d")
	_, err = a.Upgrade(t.Context(), false)
	require.NoError(t, err)
	require.Equal(t, 20, a.BucketSize())

	b := w.process(t, "b", nil)
	require.Equal(t, 20, b.BucketSize(), "it follows the record")
	require.Contains(t, b.log.String(), `"command":"fanmail admin settings inbox.bucket_size 50"`)
	require.Equal(t, settings.Effect{Changed: true}, b.change(t, settings.BucketSizeKey, "255"))
	require.NoError(t, a.Load(t.Context()))
	require.Equal(t, 255, a.BucketSize())
	_, err = a.Change(t.Context(), settings.BucketSizeKey, "256", false, true)
	require.EqualError(t, err, "inbox.bucket_size is 256: it must be from 1 to 255")
	require.Equal(t, 255, a.BucketSize())
}

// TestTheUpgradeMustFitWhatIsRecorded upgrades with a size of buckets that only the configured largest entry allows.
func TestTheUpgradeMustFitWhatIsRecorded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings.Highest)
	w.process(t, "big", nil).change(t, "inbox.entry_bytes", "128KiB")
	w.atLevel2(t)
	mongodb := func(size int) func(*config.Config) {
		return func(c *config.Config) {
			c.Store, c.MongoDB.URI, c.Inbox.BucketSize = config.StoreMongoDB, "mongodb://x", size
		}
	}
	a := w.process(t, "a", mongodb(200))
	require.Equal(t, 50, a.BucketSize())
	_, err := a.Upgrade(t.Context(), false)
	require.EqualError(t, err, "inbox.bucket_size is 200: it must be from 1 to 127, because so many entries of inbox.entry_bytes, which is 128KiB, "+
		"stay below the 16MiB of a MongoDB document")
	require.NoError(t, a.Load(t.Context()))
	require.Equal(t, settings.Recorded, a.Level())
	b := w.process(t, "b", mongodb(127))
	_, err = b.Upgrade(t.Context(), false)
	require.NoError(t, err)
	require.Equal(t, 127, b.BucketSize())
	b.change(t, "inbox.entry_bytes", "81KiB")
	b.change(t, settings.BucketSizeKey, "202")
	require.Equal(t, 199, b.BucketSize(), "buckets have room for facets")
	_, err = b.Change(t.Context(), "inbox.entry_bytes", "82KiB", false, true)
	require.ErrorAs(t, err, new(*message.InvalidError))
	require.ErrorContains(t, err, "inbox.bucket_size is 202: it must be from 1 to 199")
}

// TestRetentionNeedsItsLevel lets nothing expire before the upgrade, which has to be confirmed.
func TestRetentionNeedsItsLevel(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings.Highest)
	w.process(t, "a", nil).change(t, "idempotency.ttl", "20d")
	w.atLevel2(t)
	a := w.process(t, "a", func(c *config.Config) {
		c.Retention.MaxAge, c.Retention.Newest, c.Retention.Canonical = 40*24*time.Hour, 100, 10*24*time.Hour
	})
	requireNone := func() {
		require.Zero(t, a.Retention())
		require.Zero(t, a.Canonical())
	}
	requireNone()
	for _, key := range []string{settings.MaxAgeKey, settings.NewestKey, settings.CanonicalKey} {
		_, err := a.Change(t.Context(), key, "0", true, true)
		require.Equal(t, &settings.LevelError{Level: 2, Needed: 3}, err, key)
	}
	a.change(t, "idempotency.ttl", "30d")
	_, err := a.Upgrade(t.Context(), true)
	require.EqualError(t, err, "retention.canonical is 240h: it must be at least idempotency.ttl, which is 720h")
	a.change(t, "idempotency.ttl", "10d")
	requireNone()
	_, err = a.Upgrade(t.Context(), false)
	require.ErrorAs(t, err, new(*settings.UnconfirmedError))
	require.EqualError(t, err,
		"the configured retention.max_age 960h and retention.newest 100 hold from the upgrade on, so messages expire: confirm that (--yes)")
	require.NoError(t, a.Load(t.Context()))
	requireNone()
	_, err = a.Upgrade(t.Context(), true)
	require.NoError(t, err)

	b := w.process(t, "b", nil)
	for name, p := range map[string]process{"a": a, "b": b} {
		require.Equal(t, userstate.Retention{MaxAge: 40 * 24 * time.Hour, Newest: 100}, p.Retention(), name)
		require.Equal(t, 10*24*time.Hour, p.Canonical(), name)
	}
	for key, value := range map[string]string{settings.MaxAgeKey: "50d", settings.NewestKey: "200", settings.CanonicalKey: "720h"} {
		require.Equal(t, settings.Effect{Changed: true}, b.change(t, key, value))
	}
	require.NoError(t, a.Load(t.Context()))
	require.Equal(t, userstate.Retention{MaxAge: 50 * 24 * time.Hour, Newest: 200}, a.Retention())
	require.Equal(t, 30*24*time.Hour, a.Canonical())
}

// TestFirstValuesNeedNotFitEachOther upgrades a store whose settings were recorded first at two levels, with another value in between.
func TestFirstValuesNeedNotFitEachOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings.Highest)
	w.atLevel2(t)
	record, err := w.Settings().Load(t.Context())
	require.NoError(t, err)
	older := record
	older.Settings = maps.Clone(record.Settings)
	for key, first := range map[string]string{"idempotency.ttl": "90d", "publish_slack": "10m", "inbox.entry_bytes": "128KiB"} {
		setting := older.Settings[key]
		setting.First = first
		older.Settings[key] = setting
	}
	require.NoError(t, w.Settings().Replace(t.Context(), record, older))
	a := w.process(t, "a", func(c *config.Config) {
		c.Store, c.MongoDB.URI, c.Inbox.BucketSize, c.Retention.MaxAge = config.StoreMongoDB, "mongodb://x", 200, 5*time.Minute
	})
	_, err = a.Upgrade(t.Context(), true)
	require.NoError(t, err)
	require.Equal(t, 199, a.BucketSize(), "of 200, to have room for facets")
	require.Equal(t, 5*time.Minute, a.Retention().MaxAge)
	require.Equal(t, 30*24*time.Hour, a.Canonical())
	require.Equal(t, 10*time.Minute, a.Rules().FirstSlack)
}

func TestAProcessFollowsTheRecord(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings.Highest)
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
	require.Equal(t, settings.Effect{Changed: true}, a.change(t, "dormant_after", "90d"))
	require.Equal(t, settings.Effect{}, a.change(t, "dormant_after", "2160h"))
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

// TestOlderMessagesAreJudgedByTheFirstSlack changes the slack. Messages that were stored without a verdict do not change sides.
func TestOlderMessagesAreJudgedByTheFirstSlack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings.Highest)
	a := w.process(t, "a", nil)
	a.change(t, "publish_slack", "10m")
	old := message.Stored{Message: message.Message{ID: messagetest.ID(1)}}
	sent := old.Sent()
	old.StoredAt = sent.Add(2 * time.Minute)
	require.False(t, a.Rules().Void(old))
	old.StoredAt = sent.Add(2*time.Minute + time.Millisecond)
	require.True(t, a.Rules().Void(old))
	require.Equal(t, 10*time.Minute, a.Rules().Timing().Slack)
	old.Verdict = message.Valid
	require.False(t, a.Rules().Void(old))
	a.change(t, "publish_slack", "70s")
	old.Verdict, old.StoredAt = message.Undecided, sent.Add(2*time.Minute)
	require.False(t, a.Rules().Void(old))
}

func TestChangeRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings.Highest)
	a := w.process(t, "a", nil)
	for name, test := range map[string]struct{ key, value, says string }{
		"an unknown key":          {"addr", ":1", "addr is no recorded setting: those are dormant_after, clock_tolerance, publish_slack, idempotency.ttl, inbox.entry_bytes, inbox.bucket_size, retention.max_age, retention.newest, retention.canonical"},
		"a value without a unit":  {"dormant_after", "30", "is not a duration such as 500ms, 30s, 5m, 720h or 30d"},
		"values that do not fit":  {"clock_tolerance", "5m", "publish_slack is 2m: it must be more than half of clock_tolerance"},
		"a value out of bounds":   {"inbox.entry_bytes", "1MiB", "inbox.entry_bytes is 1MiB: it must be from 1KiB to 128KiB"},
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

// TestAChangeMustFitTheProcesses lowers the largest entry below what a process that runs may write.
func TestAChangeMustFitTheProcesses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings.Highest)
	big := w.process(t, "big", nil)
	w.clock.pass(time.Minute)
	small := w.process(t, "small", func(c *config.Config) { c.Limits.Body, c.Limits.Attrs = 16*config.KiB, config.KiB })
	_, err := small.Change(t.Context(), "inbox.entry_bytes", "20KiB", true, true)
	require.ErrorAs(t, err, new(*settings.MisfitError))
	require.EqualError(t, err, "limits.body 64KiB and limits.attrs 16KiB of the process big (rehydrator) needs inbox.entry_bytes of at least 81KiB: "+
		"restart it with a lower value, or repeat this a minute after it has stopped")
	w.clock.pass(time.Millisecond)
	small.change(t, "inbox.entry_bytes", "20KiB")

	require.NoError(t, big.Load(t.Context()))
	require.Equal(t, 1, strings.Count(big.log.String(), "the process will not start again"))
	again := w.newProcess(t, "again", nil)
	err = again.Open(t.Context(), w.Settings())
	require.NotContains(t, again.log.String(), "will not start again", "the error says it")
	require.ErrorAs(t, err, new(*settings.UnfitError))
	require.EqualError(t, err, "inbox.entry_bytes is recorded as 20KiB, and limits.body 64KiB and limits.attrs 16KiB of this process needs at least 81KiB: "+
		"lower that, or run fanmail admin settings inbox.entry_bytes 81KiB")
	small.change(t, "inbox.entry_bytes", "81KiB")
	w.process(t, "again", nil)
}

func TestTheTimeoutMustFitTheTolerance(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings.Highest)
	mongodb := func(timeout time.Duration) func(*config.Config) {
		return func(c *config.Config) {
			c.Store, c.MongoDB.URI, c.MongoDB.Timeout = config.StoreMongoDB, "mongodb://x", timeout
		}
	}
	a := w.process(t, "a", mongodb(10*time.Second))
	_, err := a.Change(t.Context(), "clock_tolerance", "39s", false, true)
	require.ErrorContains(t, err, "mongodb.timeout 10s of the process a (rehydrator) needs clock_tolerance of at least 40s")
	a.change(t, "clock_tolerance", "40s")
	err = w.newProcess(t, "b", mongodb(11*time.Second)).Open(t.Context(), w.Settings())
	require.ErrorContains(t, err, "clock_tolerance is recorded as 40s, and mongodb.timeout 11s of this process needs at least 44s")
}

// A change of dormant_after makes no user active or dormant. The value that was recorded first judges the horizons that are not stored.
func TestDormantAfterAffectsTheFuture(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings.Unrecorded)
	a := w.process(t, "a", nil)
	require.False(t, a.Rules().Stored, "level 1")
	_, err := a.Upgrade(t.Context(), true)
	require.NoError(t, err)
	require.True(t, a.Rules().Stored)
	seen := userstate.State{User: "ann", LastViewed: epoch}
	horizon := a.Rules().Horizon(seen)
	for _, value := range []string{"60d", "10d"} {
		require.Equal(t, settings.Effect{Changed: true}, a.change(t, "dormant_after", value))
		require.Equal(t, horizon, a.Rules().Horizon(seen), value)
	}
	require.Equal(t, 10*24*time.Hour, a.Rules().DormantAfter)
	require.True(t, w.process(t, "b", nil).Rules().Stored)
}

func TestChangesByManyLoseNone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings.Highest)
	changes := map[string]string{"idempotency.ttl": "48h", "publish_slack": "3m", "dormant_after": "20d", "inbox.entry_bytes": "100KiB"}
	var wg sync.WaitGroup
	for key, value := range changes {
		p := w.process(t, key, nil)
		wg.Go(func() {
			if effect, err := p.Change(t.Context(), key, value, false, true); err != nil || !effect.Changed {
				t.Errorf("%s: %v, %v", key, effect, err)
			}
		})
	}
	wg.Wait()
	record, err := w.Settings().Load(t.Context())
	require.NoError(t, err)
	for key := range maps.Keys(changes) {
		require.NotEqual(t, record.Settings[key].First, record.Settings[key].Value, key)
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

func (s *brokenStore) Report(context.Context, settings.Process) (time.Time, error) {
	return epoch, s.count(&s.reports)
}

// TestPolling counts reads and reports in a minute of a clock that only waiting advances.
func TestPolling(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings.Highest)
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
	p := newWorld(t, settings.Highest).process(t, "a", nil)
	for _, change := range []struct {
		key, value string
		confirm    bool
	}{
		{settings.MaxAgeKey, "30d", true},
		{settings.MaxAgeKey, "40d", false},
		{settings.MaxAgeKey, "20d", true},
		{settings.MaxAgeKey, "0", false},
		{settings.NewestKey, "100", true},
		{settings.NewestKey, "200", false},
		{settings.NewestKey, "150", true},
		{settings.NewestKey, "0", false},
		{settings.CanonicalKey, "20d", false},
		{settings.BucketSizeKey, "20", false},
		{settings.MaxAgeKey, "30d", true},
		{settings.CanonicalKey, "10d", true},
		{settings.CanonicalKey, "15d", false},
	} {
		effect, err := p.Change(t.Context(), change.key, change.value, true, false)
		require.NoError(t, err)
		require.True(t, effect.Changed, "a dry run of %s %s", change.key, change.value)
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
	w := newWorld(t, settings.Highest)
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

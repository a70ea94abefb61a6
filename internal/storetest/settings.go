package storetest

import (
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/settings"
	"github.com/fanmail/fanmail/internal/tally"
	"github.com/fanmail/fanmail/pkg/attribute"
)

// Proposed are the settings with which Backend.New creates a database.
var Proposed = map[string]string{"dormant_after": "720h", "idempotency.ttl": "24h"}

type settingsSuite struct{ backend Backend }

// run tests a backend's settings.Store.
func (s settingsSuite) run(t *testing.T) {
	t.Helper()
	t.Run("Load/of a new database", s.first)
	t.Run("Reopen/keeps what was recorded first", s.recordedOnce)
	t.Run("Replace/applies to the record that was loaded", s.replace)
	t.Run("Replace/by many has one winner", s.replaceConcurrently)
	t.Run("Report/lists processes", s.processes)
	t.Run("Report/never lowers counters", s.counters)
	t.Run("Forget/removes a row that was not reported since", s.forget)
	t.Run("ReplaceTotals/applies to the record that was read", s.totals)
	t.Run("ReplaceTotals/by many has one winner", s.totalsConcurrently)
}

func load(t *testing.T, store settings.Store) settings.Record {
	t.Helper()
	record, err := store.Load(t.Context())
	require.NoError(t, err)
	return record
}

// changed returns the record after a change of one value.
func changed(from settings.Record, key, value string) settings.Record {
	to := settings.Record{Settings: maps.Clone(from.Settings)}
	to.Settings[key] = settings.Setting{Value: value, Since: later(17)}
	return to
}

func (s settingsSuite) first(t *testing.T) {
	t.Parallel()
	record := load(t, s.backend.New(t).Settings)
	require.Len(t, record.Settings, len(Proposed))
	for key, value := range Proposed {
		require.Equal(t, value, record.Settings[key].Value)
		require.False(t, record.Settings[key].Since.IsZero())
		require.Equal(t, time.UTC, record.Settings[key].Since.Location())
	}
}

func (s settingsSuite) recordedOnce(t *testing.T) {
	t.Parallel()
	db := s.backend.New(t)
	record := load(t, db.Settings)
	require.Equal(t, record, load(t, db.Reopen(t).Settings))
}

func (s settingsSuite) replace(t *testing.T) {
	t.Parallel()
	db := s.backend.New(t)
	record := load(t, db.Settings)
	want := changed(record, "dormant_after", "1440h")
	lowered := want.Settings["idempotency.ttl"]
	lowered.Until = later(18)
	want.Settings["idempotency.ttl"] = lowered
	require.NoError(t, db.Settings.Replace(t.Context(), record, want))
	got := load(t, db.Settings)
	require.Greater(t, got.Revision, record.Revision)
	require.Equal(t, want.Settings, got.Settings)

	require.ErrorIs(t, db.Settings.Replace(t.Context(), record, changed(record, "dormant_after", "1h")), settings.ErrChanged)
	require.Equal(t, got, load(t, db.Settings), "a refused change changes nothing")
	another := changed(got, "a.key", "81KiB")
	another.Declared = []attribute.Declaration{{Name: "total", Type: attribute.Number, Number: 3}, {Name: "due", Type: attribute.Time, Number: 5}}
	another.LastDeclared = 7
	require.NoError(t, db.Settings.Replace(t.Context(), got, another), "a key that was not recorded")
	again := load(t, db.Settings)
	require.Equal(t, another.Declared, again.Declared)
	require.Equal(t, 7, again.LastDeclared)
	require.Equal(t, "81KiB", again.Settings["a.key"].Value)
	require.Equal(t, again, load(t, db.Reopen(t).Settings), "a change lasts")

	none := again
	none.Declared = nil
	require.NoError(t, db.Settings.Replace(t.Context(), again, none))
	last := load(t, db.Reopen(t).Settings)
	require.Empty(t, last.Declared)
	require.Equal(t, 7, last.LastDeclared, "a number is never given again")
}

func (s settingsSuite) replaceConcurrently(t *testing.T) {
	t.Parallel()
	const callers = 8
	store := s.backend.New(t).Settings
	record := load(t, store)
	errs := make([]error, callers)
	var wg sync.WaitGroup
	for i := range callers {
		to := changed(record, "dormant_after", (time.Duration(i+1) * time.Hour).String())
		wg.Go(func() { errs[i] = store.Replace(t.Context(), record, to) })
	}
	wg.Wait()
	winners := 0
	for i, err := range errs {
		if err == nil {
			winners++
			require.Equal(t, (time.Duration(i+1) * time.Hour).String(), load(t, store).Settings["dormant_after"].Value)
			continue
		}
		require.ErrorIs(t, err, settings.ErrChanged)
	}
	require.Equal(t, 1, winners)
}

func (s settingsSuite) processes(t *testing.T) {
	t.Parallel()
	store := s.backend.New(t).Settings
	list := func() []settings.Process {
		all, err := store.Processes(t.Context())
		require.NoError(t, err)
		return all
	}
	require.Empty(t, list())
	two := settings.Process{
		Name: "b-2", Role: "publisher", Host: "b", Version: "v1.2.3", Address: "[::1]:80", State: settings.Running, Started: later(3), Timeout: 10 * time.Second,
	}
	one := settings.Process{Name: "a-1", Role: "fanout-worker+rehydrator", State: settings.Stopping, Started: later(4)}
	for _, p := range []*settings.Process{&two, &one} {
		seen, err := store.Report(t.Context(), *p)
		require.NoError(t, err)
		require.False(t, seen.IsZero())
		p.Seen = seen
	}
	require.Equal(t, []settings.Process{one, two}, list())
	was := two.Seen
	two.Role, two.Counters = "rehydrator", counters(7)
	var err error
	two.Seen, err = store.Report(t.Context(), two)
	require.NoError(t, err)
	require.False(t, two.Seen.Before(was))
	require.Equal(t, []settings.Process{one, two}, list(), "a repeated report replaces the one before")
}

// counters returns counters of which all differ, and that rise with n.
func counters(n int64) tally.Counters {
	list := make([]int64, 36)
	for i := range list {
		list[i] = n << (i % 40)
	}
	return tally.Of(list)
}

func (s settingsSuite) counters(t *testing.T) {
	t.Parallel()
	store := s.backend.New(t).Settings
	report := func(c tally.Counters) error {
		_, err := store.Report(t.Context(), settings.Process{Name: "a.$b", Started: later(1), Counters: c})
		return err
	}
	row := func() tally.Counters {
		all, err := store.Processes(t.Context())
		require.NoError(t, err)
		require.Len(t, all, 1)
		return all[0].Counters
	}
	require.ErrorIs(t, report(counters(1)), settings.ErrForgotten, "no row was made without counters")
	all, err := store.Processes(t.Context())
	require.NoError(t, err)
	require.Empty(t, all)
	require.NoError(t, report(tally.Counters{}))
	require.Zero(t, row())
	for _, c := range []tally.Counters{{RebuiltUsers: 1}, {Delivered: 3, RebuiltUsers: 1}, {Accepted: 1, Delivered: 3, RebuiltUsers: 256}, counters(300), counters(1 << 20)} {
		before := row()
		require.NoError(t, report(c))
		require.Equal(t, c, row())
		require.NoError(t, report(before), "a report that comes late")
		require.NoError(t, report(tally.Counters{}), "the first one, late")
		require.Equal(t, c, row())
	}
}

func (s settingsSuite) forget(t *testing.T) {
	t.Parallel()
	store := s.backend.New(t).Settings
	p := settings.Process{Name: "a", Started: later(1)}
	report := func() {
		seen, err := store.Report(t.Context(), p)
		require.NoError(t, err)
		p.Seen = seen
	}
	there := func() int {
		all, err := store.Processes(t.Context())
		require.NoError(t, err)
		return len(all)
	}
	require.NoError(t, store.Forget(t.Context(), p), "there is none")
	report()
	old := p
	old.Seen = p.Seen.Add(-time.Millisecond)
	require.NoError(t, store.Forget(t.Context(), old))
	require.Equal(t, 1, there(), "it was reported since")
	p.Counters = counters(1)
	report()
	require.NoError(t, store.Forget(t.Context(), p))
	require.Zero(t, there())
	_, err := store.Report(t.Context(), p)
	require.ErrorIs(t, err, settings.ErrForgotten)
}

func (s settingsSuite) totals(t *testing.T) {
	t.Parallel()
	db := s.backend.New(t)
	totals := func(store settings.Store) settings.Totals {
		got, err := store.Totals(t.Context())
		require.NoError(t, err)
		return got
	}
	first := totals(db.Settings)
	require.Zero(t, first.Base)
	require.Empty(t, first.Taken)
	p := settings.Process{Name: "c", Started: later(1)}
	_, err := db.Settings.Report(t.Context(), p)
	require.NoError(t, err)

	next := settings.Totals{Base: counters(3), Taken: map[string]tally.Counters{"b.x-1": counters(1), "$a": counters(2)}}
	require.NoError(t, db.Settings.ReplaceTotals(t.Context(), first, next))
	got := totals(db.Settings)
	require.Greater(t, got.Revision, first.Revision)
	require.Equal(t, next.Base, got.Base)
	require.Equal(t, next.Taken, got.Taken)
	require.ErrorIs(t, db.Settings.ReplaceTotals(t.Context(), first, settings.Totals{}), settings.ErrChanged)
	require.Equal(t, got, totals(db.Settings))

	db = db.Reopen(t)
	require.Equal(t, got, totals(db.Settings), "a change lasts")
	rows, err := db.Settings.Processes(t.Context())
	require.NoError(t, err)
	require.Len(t, rows, 1, "so does what was reported before it")
	require.NoError(t, db.Settings.ReplaceTotals(t.Context(), got, settings.Totals{Base: counters(6)}))
	last := totals(db.Settings)
	require.Equal(t, counters(6), last.Base)
	require.Empty(t, last.Taken)
}

func (s settingsSuite) totalsConcurrently(t *testing.T) {
	t.Parallel()
	store := s.backend.New(t).Settings
	for range 2 { // without a record, and with one
		from, err := store.Totals(t.Context())
		require.NoError(t, err)
		errs := make([]error, 8)
		var wg sync.WaitGroup
		for i := range errs {
			wg.Go(func() {
				errs[i] = store.ReplaceTotals(t.Context(), from, settings.Totals{Base: counters(int64(i + 1))})
			})
		}
		wg.Wait()
		winner := slices.Index(errs, nil)
		require.GreaterOrEqual(t, winner, 0)
		for i, err := range errs {
			if i != winner {
				require.ErrorIs(t, err, settings.ErrChanged)
			}
		}
		got, err := store.Totals(t.Context())
		require.NoError(t, err)
		require.Equal(t, counters(int64(winner+1)), got.Base)
	}
}

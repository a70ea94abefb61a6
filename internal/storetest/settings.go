package storetest

import (
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/settings"
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
	two := settings.Process{Name: "b-2", Role: "publisher", Timeout: 10 * time.Second}
	one := settings.Process{Name: "a-1", Role: "fanout-worker+rehydrator"}
	for _, p := range []*settings.Process{&two, &one} {
		seen, err := store.Report(t.Context(), *p)
		require.NoError(t, err)
		require.False(t, seen.IsZero())
		p.Seen = seen
	}
	require.Equal(t, []settings.Process{one, two}, list())
	was := two.Seen
	two.Role = "rehydrator"
	var err error
	two.Seen, err = store.Report(t.Context(), two)
	require.NoError(t, err)
	require.False(t, two.Seen.Before(was))
	require.Equal(t, []settings.Process{one, two}, list(), "a repeated report replaces the one before")
}

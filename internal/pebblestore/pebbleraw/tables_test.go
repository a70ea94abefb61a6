package pebbleraw_test

import (
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/pebblestore/pebbleraw"
	"github.com/fanmail/fanmail/test/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// Tables leaves the same records as batches, so that their rates can be compared.
func TestTablesHoldTheRecordsOfBatches(t *testing.T) {
	t.Parallel()
	const n = 9001 // each goroutine writes a full table and another
	var all [2]map[string]string
	tables := func(opts pebbleraw.Options, n int) (float64, error) { return pebbleraw.Tables(t.Context(), opts, n) }
	for i, write := range []func(pebbleraw.Options, int) (float64, error){pebbleraw.Batches, tables} {
		opts := pebbleraw.Options{Dir: t.TempDir(), CacheBytes: 8 << 20, MemTableBytes: 4 << 20, Bodies: []string{"hello", "bye"}}
		rate, err := write(opts, n)
		require.NoError(t, err)
		require.Positive(t, rate)
		all[i] = records(t, opts.Dir)
	}
	require.Len(t, all[0], n)
	require.Equal(t, all[0], all[1])
}

func records(t *testing.T, dir string) map[string]string {
	t.Helper()
	db, err := pebble.Open(dir, &pebble.Options{ReadOnly: true})
	require.NoError(t, err)
	iter, err := db.NewIter(nil)
	require.NoError(t, err)
	found := make(map[string]string)
	for iter.First(); iter.Valid(); iter.Next() {
		found[string(iter.Key())] = string(iter.Value())
	}
	require.NoError(t, iter.Close())
	require.NoError(t, db.Close())
	return found
}

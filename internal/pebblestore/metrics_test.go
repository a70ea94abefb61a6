package pebblestore_test

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/pebblestore"
)

// A closed store has no metrics, and a scrape of it does no harm.
func TestMetricsOfAClosedStore(t *testing.T) {
	t.Parallel()
	measured := prometheus.NewRegistry()
	opts := options(t, vfs.NewMem())
	opts.Metrics = measured
	db, err := pebblestore.Open(t.Context(), "store", opts)
	require.NoError(t, err)
	n, err := testutil.GatherAndCount(measured)
	require.NoError(t, err)
	require.Equal(t, 7, n)
	require.NoError(t, db.Close())
	n, err = testutil.GatherAndCount(measured)
	require.NoError(t, err)
	require.Zero(t, n)
}

package pebblestore_test

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

// A store that is closed tells nothing, and harms nobody who asks.
func TestMetricsOfAClosedStore(t *testing.T) {
	t.Parallel()
	db := open(t, vfs.NewMem())
	require.Equal(t, 7, testutil.CollectAndCount(db))
	require.NoError(t, db.Close())
	require.Zero(t, testutil.CollectAndCount(db))
}

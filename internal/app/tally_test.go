package app_test

import (
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/config"
	"github.com/fanmail/fanmail/internal/pebblestore"
	"github.com/fanmail/fanmail/internal/settings"
	"github.com/fanmail/fanmail/internal/tally"
	"github.com/fanmail/fanmail/pkg/client"
)

// TestStoppedProcessHasReported reads from the store what a process did until it was stopped.
func TestStoppedProcessHasReported(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w, stop := newWorldIn(t, dir)
	w.see(t, "cid")
	w.ask(t, http.MethodPut, "/v1/users/dan", `{"last_viewed":"2020-01-01T00:00:00Z"}`, http.StatusNoContent, nil)
	w.ask(t, http.MethodPut, "/v1/users/eve/blocked/ann", "", http.StatusNoContent, nil)
	w.sent(t, `{"from":"ann","to":["ben","cid","dan","eve"],"body":"hello","attrs":{"a":1}}`)
	w.see(t, "dan")
	require.Len(t, w.inbox(t, "dan"), 1)
	var list client.ProcessList
	w.ask(t, http.MethodGet, "/v1/admin/processes", "", http.StatusOK, &list)
	require.Equal(t, settings.Running, list.Processes[0].State)
	require.Equal(t, w.app.URL(), "http://"+list.Processes[0].Address)
	stop()

	cfg := config.Default()
	db, err := pebblestore.Open(t.Context(), filepath.Join(dir, "store"), pebblestore.Options{
		Partitions: cfg.Partitions, BucketSize: cfg.Inbox.BucketSize, Settings: cfg.Recorded().Texts(), Now: time.Now, Logger: zerolog.Nop(),
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	rows, err := db.Settings().Processes(t.Context())
	require.NoError(t, err)
	require.Len(t, rows, 1)
	require.Equal(t, settings.Stopping, rows[0].State)
	done := rows[0].Counters
	const size = int64(len("hello") + len(`{"a":1}`))
	away, returned := done.Away, done.Returned
	done.Away, done.Returned = tally.Steps{}, tally.Steps{}
	require.Equal(t, tally.Counters{
		Accepted: 1, Delivered: 1, DeliveredBytes: size, Skipped: tally.Skips{Dormant: 1, NeverSeen: 1, Blocked: 1, Bytes: 2 * size},
		RebuiltUsers: done.RebuiltUsers, RebuiltMessages: 1, Finished: tally.Lanes{Direct: 1},
	}, done)
	require.GreaterOrEqual(t, done.RebuiltUsers, int64(2))
	const last = len(tally.Ends)
	require.Equal(t, tally.Steps{0: 1, last: 1}, away, "cid had just looked, and dan years ago")
	require.GreaterOrEqual(t, returned[last], int64(2), "cid for the first time, and dan after years")
}

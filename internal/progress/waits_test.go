package progress_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/pkg/message"
)

func TestWaits(t *testing.T) {
	t.Parallel()
	workers := true
	waits := progress.Waits{Lease: 30 * time.Second, ResumeAfter: 5 * time.Minute, Workers: func() bool { return workers }}
	moved := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	joined := progress.Scan{}.Join("m")
	for name, test := range map[string]struct {
		scan  progress.Scan
		after time.Duration
		until time.Duration // after moved
		waits message.WaitingFor
		none  message.WaitingFor // if no worker runs
	}{
		"moves":              {joined, 4 * time.Second, 0, "", ""},
		"done":               {progress.Scan{Done: true}, time.Hour, 0, "", ""},
		"not begun":          {progress.Scan{}, time.Minute, 0, "worker", "worker"},
		"until the lease":    {joined, 29 * time.Second, 30 * time.Second, "lost-worker", "worker"},
		"until it is routed": {joined, 30 * time.Second, 5 * time.Minute, "lost-worker", "worker"},
		"later":              {joined, 5 * time.Minute, 0, "lost-worker", "worker"},
		"missed":             {joined.Miss("p", false), time.Second, 0, "store", "store"},
		"missed long ago":    {joined.Miss("p", false), time.Hour, 0, "store", "worker"},
		"dead":               {progress.Scan{Dead: true}, time.Hour, 0, "dead-letter", "dead-letter"},
	} {
		for _, running := range []bool{true, false} {
			workers = running
			what, until := waits.For(progress.Fanout{ID: message.MinID(moved), Lane: "medium", Moved: moved, Scans: map[int]progress.Scan{0: test.scan}}, moved.Add(test.after))
			if !running {
				test.waits, test.until = test.none, 0
			}
			require.Equal(t, test.waits, what, name)
			if test.until == 0 {
				require.Zero(t, until, name)
			} else {
				require.Equal(t, moved.Add(test.until), until, name)
			}
		}
	}
	for waits, want := range map[*progress.Waits]message.WaitingFor{&waits: "worker", {}: "router"} {
		what, until := waits.For(progress.Fanout{}, moved)
		require.Equal(t, want, what)
		require.Zero(t, until)
	}
}

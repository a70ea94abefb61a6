package audit_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/audit"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/verdict"
)

// TestEmptiedInbox looks at an inbox that was emptied, wholly and in part. Nothing of what has expired is missing, and all else is looked at.
func TestEmptiedInbox(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	all := w.fill(130)
	missing := w.pass(w.named(epoch.Add(-time.Minute), "ben")) // before all others
	empty := func(purged message.ID) {
		freed, more, err := bucket.NewEmptying(w.db.Inbox(), "ben", bucket.Hint{}, purged).Step(t.Context(), 10)
		require.NoError(t, err)
		require.False(t, more)
		require.NotZero(t, freed)
	}
	audited := func() []audit.Finding {
		found, _ := run(t.Context(), t, w.Service, audit.Request{})
		return found
	}
	require.Len(t, audited(), 1, "it is not there")
	empty(all[19].ID)
	require.Empty(t, audited(), "it has expired, as the emptied entries say")
	for _, purged := range []int{54, 99, 110} {
		empty(all[purged].ID)
		require.Empty(t, audited(), "emptied up to message %d", purged)
	}
	entry, _, err := w.db.Inbox().Newest(t.Context(), "ben", 0, 10, 0)
	require.NoError(t, err)
	require.True(t, entry[len(entry)-1].Stub)
	w.remove(all[120].ID)
	lost := audited()
	require.NotEmpty(t, lost)
	for _, f := range lost {
		require.NotEqual(t, missing.ID, f.Message)
		require.NotEqual(t, verdict.Damaged, f.Kind)
	}
}

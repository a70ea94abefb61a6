package audit_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/audit"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/verdict"
	"github.com/fanmail/fanmail/test/tamper/damage"
)

// TestDamagedFindings audits three users: the record of ann is spoilt, ben has lost a bucket, and cid is sound. The audit names the damage, and
// does not stop.
func TestDamagedFindings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, user := range []message.UserID{"ann", "cid"} {
		w.see(user, epoch)
	}
	w.fill(120)
	w.damage(func(store damage.Store) error {
		_, err := store.Spoil(t.Context(), "ann")
		return err
	})
	w.damage(func(store damage.Store) error {
		_, err := store.Lose(t.Context(), "ben", 1)
		return err
	})
	for _, repair := range []bool{false, true} {
		details := make(map[message.UserID]string)
		summary, err := w.Audit(t.Context(), audit.Request{Repair: repair}, func(e audit.Event) error {
			if e.Finding != nil && e.Finding.Kind == verdict.Damaged {
				details[e.Finding.User] = e.Finding.Detail
				require.Equal(t, repair, e.Finding.Note != "")
				require.False(t, e.Finding.Repaired)
			}
			if e.Finding != nil {
				require.NotEqual(t, message.UserID("cid"), e.Finding.User)
			}
			return nil
		})
		require.NoError(t, err)
		require.EqualValues(t, 3, summary.Users)
		require.EqualValues(t, 2, summary.Found[verdict.Damaged])
		require.EqualValues(t, 2, summary.Remaining[verdict.Damaged])
		require.Contains(t, details["ann"], "state of ann: damaged record")
		require.Equal(t, "the buckets between 0 and 2 are missing", details["ben"])
	}
}

package audit_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/audit"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
	"github.com/fanmail/fanmail/pkg/verdict"
)

// purge lets ben's messages up to a time expire.
func (w *world) purge(until time.Time) int64 {
	w.t.Helper()
	n, err := w.inboxes().Purge(w.t.Context(), "ben", until, false)
	require.NoError(w.t, err)
	return n
}

// requireClean requires that an audit of ben finds nothing.
func (w *world) requireClean() {
	w.t.Helper()
	findings, _ := run(w.t.Context(), w.t, w.Service, audit.Request{User: "ben"})
	require.Empty(w.t, findings)
}

// The audit expects nothing that has expired, and accepts what is there of it: a message that nobody has sent, and one that is missing.
func TestAuditOfWhatHasExpired(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	sent := func(n int) time.Time { return epoch.Add(time.Duration(n-2000) * time.Millisecond) }
	w.pass(w.toFollowers(sent(0))) // missing
	foreign := w.named(sent(1), "dora")
	w.append(foreign)
	for n := 2; n < 132; n++ {
		w.deliver(w.named(sent(n), "ben"))
	}
	findings, _ := run(t.Context(), t, w.Service, audit.Request{User: "ben"})
	require.Len(t, findings, 2)
	for _, until := range []int{1, 30, 60, 105, 130, 131} {
		w.purge(sent(until))
		w.requireClean()
		emptying := bucket.NewEmptying(w.db.Inbox(), "ben", bucket.Hint{}, w.state().Purged)
		_, more, err := emptying.Step(t.Context(), 99)
		require.NoError(t, err)
		require.False(t, more)
		w.requireClean()
		ids, total := w.read()
		require.Len(t, ids, 131-until)
		require.EqualValues(t, 131-until, total)
	}
}

// A purge point that a wrong clock has set into the future is named: nothing shows any more that the user gets.
func TestAuditOfAPurgePointAhead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	purged := message.LastBefore(w.now.Add(72 * time.Hour))
	w.change(func(s *userstate.State) { s.Purged = purged })
	findings, _ := run(t.Context(), t, w.Service, audit.Request{User: "ben", Repair: true})
	require.Len(t, findings, 1)
	require.Equal(t, verdict.PurgedAhead, findings[0].Kind)
	require.Contains(t, findings[0].Detail, "the purge point is in the future: messages sent before 2026-01-05T")
	require.Contains(t, findings[0].Note, "a purge point never falls")
}

// A purge cuts a gap, and the audit finds that its number and that of the read mark are right.
func TestAuditOfACutGap(t *testing.T) {
	t.Parallel()
	for last := range 9 {
		w, inGap, _ := newGap(t, 9) // the first three are read
		require.NoError(t, w.inboxes().Delete(t.Context(), "ben", inGap[1].ID))
		require.NoError(t, w.inboxes().Delete(t.Context(), "ben", inGap[6].ID))
		want, unread := last+1, int64(9-last) // and one in a bucket
		if last >= 1 {
			want--
		}
		if last >= 6 {
			want--
		}
		if last < 6 {
			unread--
		}
		require.EqualValues(t, want, w.purge(inGap[last].Sent()))
		w.requireClean()
		w.requireCounts(min(unread, 6))
	}
}

// Whatever became of a message, it has expired.
func TestExplainExpired(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	delivered := w.named(epoch.Add(-4*time.Second), "ben")
	w.deliver(delivered)
	deleted := w.named(epoch.Add(-3*time.Second), "ben")
	w.deliver(deleted)
	w.delete(deleted.ID)
	missing := w.pass(w.named(epoch.Add(-2*time.Second), "ben"))
	later := w.named(epoch.Add(-time.Second), "ben")
	w.deliver(later)
	w.purge(missing.Sent())
	for _, id := range []message.ID{delivered.ID, deleted.ID, missing.ID, message.MinID(epoch.Add(-2500 * time.Millisecond))} {
		e, err := w.Explain(t.Context(), "ben", id)
		require.NoError(t, err)
		require.Equal(t, verdict.Expired, e.Verdict)
		require.Equal(t, "ben does not have "+id.String()+": all messages for them that were sent up to 2026-01-02T03:04:03.000Z have expired.", e.Sentence)
	}
	e, err := w.Explain(t.Context(), "ben", later.ID)
	require.NoError(t, err)
	require.Equal(t, verdict.Delivered, e.Verdict)
}

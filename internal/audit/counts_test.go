package audit_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/audit"
	"github.com/fanmail/fanmail/pkg/flag"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
	"github.com/fanmail/fanmail/pkg/verdict"
)

// An inbox in which every kind of state is there is found to be right. Each record that counts rest on is then made wrong by one.
func TestCountsAreRecomputed(t *testing.T) {
	t.Parallel()
	w, inGap, _ := newGap(t, 8)
	later := w.fill(6)
	inboxes := w.inboxes()
	require.NoError(t, inboxes.MarkRead(t.Context(), "ben", later[2].ID))
	yes, no := true, false
	for _, mark := range []struct {
		ids    []message.ID
		change flag.Change
	}{
		{[]message.ID{inGap[0].ID, later[0].ID, later[1].ID}, flag.Change{Read: &no}},
		{[]message.ID{inGap[4].ID, inGap[5].ID, later[4].ID}, flag.Change{Read: &yes}},
		{[]message.ID{inGap[1].ID, inGap[6].ID, later[1].ID, later[5].ID}, flag.Change{Archived: &yes}},
	} {
		_, err := inboxes.Mark(t.Context(), "ben", mark.ids, mark.change)
		require.NoError(t, err)
	}
	require.NoError(t, inboxes.MarkSeen(t.Context(), "ben", ""))
	w.deliver(w.named(epoch, "ben"))
	for _, id := range []message.ID{inGap[5].ID, inGap[7].ID, later[2].ID, later[4].ID} {
		require.NoError(t, inboxes.Delete(t.Context(), "ben", id))
	}
	w.requireClean()

	for name, test := range map[string]func(*userstate.State){
		"read": func(s *userstate.State) { s.ReadMark.Read++ },
		"seen": func(s *userstate.State) { s.Seen = 100 },
	} {
		before := w.state()
		w.change(test)
		found, summary := run(t.Context(), t, w.Service, audit.Request{User: "ben"})
		require.Equal(t, map[verdict.Kind]int64{verdict.Counts: 1}, summary.Found, name)
		require.Contains(t, found[0].Detail, "the counts say")
		w.change(func(s *userstate.State) { s.ReadMark, s.Seen = before.ReadMark, before.Seen })
	}
	w.requireClean()
}

package rehydrate_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/rehydrate"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

// A user who returns gets no more copies than the inbox keeps. The rest is a gap, until a trim lets it expire. Then the inbox is that of a user
// who never left.
func TestAReturnCopiesNoMoreThanTheInboxKeeps(t *testing.T) {
	t.Parallel()
	const missed = 5
	for name, test := range map[string]struct {
		limit           int
		deployment, own int64
		gap             int64
		left            int
	}{
		"everything":            {gap: 0, left: missed},
		"the limit":             {limit: 2, gap: 3, left: missed},
		"the newest":            {deployment: 3, gap: 2, left: 3},
		"fewer than the newest": {limit: 2, deployment: 3, gap: 3, left: 3},
		"fewer than the limit":  {limit: 4, deployment: 3, gap: 2, left: 3},
		"the user's own number": {limit: 4, deployment: 3, own: 1, gap: 4, left: 1},
		"more than were missed": {deployment: 1000, gap: 0, left: missed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.Retention.Store(&userstate.Retention{Newest: test.deployment})
			for _, user := range []message.UserID{"ann", "twin"} {
				from := w.State(t.Context(), t, user)
				to := from
				to.Keep.Newest = test.own
				_, err := w.Users.Step(t.Context(), []userstate.Step{{From: from, To: to}})
				require.NoError(t, err)
			}
			w.Clock.Advance(2 * rig.DormantAfter)
			w.sendSome(t, missed)
			w.Clock.Advance(2 * rig.Slack)
			var gapped []message.UserID
			opts := w.RehydrateOptions(0)
			opts.Limit = test.limit
			opts.Gapped = func(user message.UserID) { gapped = append(gapped, user) }
			s := rehydrate.New(w.RehydrateStores(), opts)
			w.login(t, s)
			w.rest(t, s)
			state := w.State(t.Context(), t, "ann")
			require.EqualValues(t, missed, state.Recovered)
			if test.gap == 0 {
				require.Empty(t, state.Gaps)
				require.Empty(t, gapped)
			} else {
				require.Len(t, state.Gaps, 1)
				require.Equal(t, test.gap, state.Gaps[0].Messages)
				require.Equal(t, []message.UserID{"ann"}, gapped)
			}
			for _, user := range []message.UserID{"ann", "twin"} {
				require.NoError(t, w.Walker(0).TrimUser(t.Context(), user))
				shown, _ := w.ReadInbox(t.Context(), t, user, 10)
				require.Len(t, shown, test.left, "%s", user)
			}
			if test.left < missed {
				require.Equal(t, w.State(t.Context(), t, "twin").Purged, w.State(t.Context(), t, "ann").Purged)
			}
		})
	}
}

package storetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/partition"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// damaged damages the record of ben, and requires that all reads return the others and name ben. Then it mends the record.
func (s userSuite) damaged(t *testing.T) {
	t.Parallel()
	db := s.backend.New(t)
	h := s.of(db)
	everyone := []message.UserID{"ann", "ben", "cid", "never-seen"}
	states := make(map[message.UserID]userstate.State)
	for i, user := range everyone[:3] {
		states[user] = h.step(t, user, fullState(user, i))
	}
	states["never-seen"] = userstate.State{User: "never-seen"}
	requireFound := func(damaged bool, found []userstate.Looked, err error, users ...message.UserID) {
		t.Helper()
		require.NoError(t, err)
		require.Len(t, found, len(users))
		for i, user := range users {
			if damaged && user == "ben" {
				require.Equal(t, userstate.State{User: "ben"}, found[i].State)
				require.ErrorIs(t, found[i].Err, message.ErrCorrupt)
				require.ErrorContains(t, found[i].Err, "ben")
				continue
			}
			require.Equal(t, userstate.Looked{State: states[user]}, found[i])
		}
	}
	requireAll := func(damaged bool) {
		t.Helper()
		found, err := h.Store.Lookup(t.Context(), everyone)
		requireFound(damaged, found, err, everyone...)
		found, err = h.Store.Due(t.Context(), endedBefore(later(1000)), 10)
		requireFound(damaged, found, err, everyone[:3]...)
		found, err = h.Store.Due(t.Context(), endedBefore(later(1000)), 2)
		requireFound(damaged, found, err, everyone[:2]...)
		p := partition.Of("ben", h.Partitions)
		var there []message.UserID
		for _, user := range everyone[:3] {
			if partition.Of(user, h.Partitions) == p {
				there = append(there, user)
			}
		}
		found, err = h.Store.List(t.Context(), p, "", 10)
		requireFound(damaged, found, err, there...)
	}
	requireAll(false)
	mend := db.DamageUser(t, "ben")
	requireAll(true)
	_, err := userstate.Get(t.Context(), h.Store, "ben")
	require.ErrorIs(t, err, message.ErrCorrupt)
	_, err = h.Store.Step(t.Context(), []userstate.Step{{From: states["ben"], To: states["ben"]}})
	require.ErrorIs(t, err, message.ErrCorrupt)
	require.NoError(t, h.Store.RaiseHeads(t.Context(), []bucket.Head{
		{Owner: "ann", Hint: bucket.Hint{Sequence: 3, Floor: id(3)}},
		{Owner: "ben", Hint: bucket.Hint{Sequence: 3, Floor: id(3)}},
		{Owner: "cid", Hint: bucket.Hint{Sequence: 3, Floor: id(3)}},
	}))
	for _, user := range []message.UserID{"ann", "cid"} {
		require.EqualValues(t, 3, h.lookup(t, user).Head.Sequence)
		states[user] = h.lookup(t, user)
	}
	mend()
	requireAll(false)
}

package pebblestore_test

import (
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/pebblestore"
	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/message"
)

// TestDamagedMessageFailsAlone reads a damaged record together with sound ones.
func TestDamagedMessageFailsAlone(t *testing.T) {
	t.Parallel()
	db, err := pebblestore.Open(t.Context(), t.TempDir(), options(t, nil))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	sound, damaged := messagetest.Message(1, "ann"), messagetest.Message(2, "ann")
	_, err = db.Messages().Insert(t.Context(), []message.Message{sound, damaged}, messagetest.AnyTime)
	require.NoError(t, err)
	require.NoError(t, db.Engine().Set(pebblestore.MessageKey(damaged.ID), []byte{1, 1}, pebble.Sync))
	found, err := db.Messages().GetMany(t.Context(), []message.Ref{damaged.Ref(), sound.Ref()})
	require.NoError(t, err)
	require.ErrorIs(t, found[0].Err, message.ErrCorrupt)
	require.ErrorContains(t, found[0].Err, damaged.ID.String())
	require.NoError(t, found[1].Err)
	require.Equal(t, sound, found[1].Stored.Message)
	endings, err := db.Messages().Endings(t.Context(), []message.Ref{damaged.Ref(), sound.Ref()})
	require.NoError(t, err)
	require.ErrorIs(t, endings[0].Err, message.ErrCorrupt)
	require.False(t, endings[0].Over())
	require.Equal(t, message.Ending{Ref: sound.Ref()}, endings[1])
}

// TestDamagedPlanFailsAlone lists a damaged plan together with a sound one.
func TestDamagedPlanFailsAlone(t *testing.T) {
	t.Parallel()
	db, err := pebblestore.Open(t.Context(), t.TempDir(), options(t, nil))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	ids := []message.ID{messagetest.ID(1), messagetest.ID(2), messagetest.ID(3)}
	for _, id := range ids {
		_, err := db.Progress().Plan(t.Context(), id, "medium", []int{0, 1}, messagetest.Epoch)
		require.NoError(t, err)
	}
	key, _ := pebblestore.ScanKey(ids[1], 0)
	require.NoError(t, db.Engine().Set(key, []byte{1, 0xff}, pebble.Sync))
	found, err := db.Progress().List(t.Context(), message.ID{}, message.MaxID, 10)
	require.NoError(t, err)
	require.Len(t, found, 3)
	for i, f := range found {
		require.Equal(t, ids[i], f.Fanout.ID)
		if i != 1 {
			require.NoError(t, f.Err)
			require.Len(t, f.Fanout.Scans, 2)
		}
	}
	require.ErrorIs(t, found[1].Err, message.ErrCorrupt)
}

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
	_, err = db.Messages().Insert(t.Context(), []message.Message{sound, damaged})
	require.NoError(t, err)
	require.NoError(t, db.Engine().Set(pebblestore.MessageKey(damaged.ID), []byte{2, 1}, pebble.Sync))
	found, err := db.Messages().GetMany(t.Context(), []message.Ref{damaged.Ref(), sound.Ref()})
	require.NoError(t, err)
	require.ErrorIs(t, found[0].Err, message.ErrCorrupt)
	require.ErrorContains(t, found[0].Err, damaged.ID.String())
	require.NoError(t, found[1].Err)
	require.Equal(t, sound, found[1].Stored.Message)
}

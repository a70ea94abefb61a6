package pebblestore_test

import (
	"context"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/pebblestore"
	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/message"
)

// A checkpoint that is made while others write has everything that was written before the call, and is a store.
func TestCheckpoint(t *testing.T) {
	t.Parallel()
	db, err := pebblestore.Open(t.Context(), t.TempDir(), options(t, nil))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	const before = 50
	var stored []message.Message
	insert := func(n int) message.Message {
		m := messagetest.Message(n, "ann")
		_, err := db.Messages().Insert(t.Context(), []message.Message{m}, messagetest.AnyTime)
		require.NoError(t, err)
		return m
	}
	for n := range before {
		stored = append(stored, insert(n))
	}
	stop := make(chan struct{})
	var writing sync.WaitGroup
	writing.Go(func() {
		for n := before; ; n++ {
			select {
			case <-stop:
				return
			default:
				insert(n)
			}
		}
	})
	dir := filepath.Join(t.TempDir(), "checkpoint")
	longestPause, err := db.Checkpoint(t.Context(), dir)
	close(stop)
	writing.Wait()
	require.NoError(t, err)
	require.Positive(t, longestPause)
	insert(1_000_000)

	saved, err := pebblestore.Open(t.Context(), dir, options(t, nil))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, saved.Close()) })
	for _, m := range stored {
		found, err := saved.Messages().Get(t.Context(), m.Ref())
		require.NoError(t, err)
		require.Equal(t, m, found.Message)
	}
	_, err = saved.Messages().Get(t.Context(), messagetest.Message(1_000_000, "ann").Ref())
	require.ErrorIs(t, err, message.ErrNotFound)
}

func TestCheckpointFails(t *testing.T) {
	t.Parallel()
	db, err := pebblestore.Open(t.Context(), t.TempDir(), options(t, nil))
	require.NoError(t, err)
	_, err = db.Checkpoint(t.Context(), t.TempDir())
	require.ErrorContains(t, err, "exist")
	ended, end := context.WithCancel(t.Context())
	end()
	_, err = db.Checkpoint(ended, filepath.Join(t.TempDir(), "checkpoint"))
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, db.Close())
	_, err = db.Checkpoint(t.Context(), filepath.Join(t.TempDir(), "checkpoint"))
	require.ErrorIs(t, err, pebblestore.ErrClosed)
}

package natsbus_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/natsbus"
	"github.com/fanmail/fanmail/internal/natsbus/natsserver"
	"github.com/fanmail/fanmail/pkg/event"
)

// Streams that are saved and restored have the same dead letters, with their ids and times, and the same logins.
func TestSaveAndRestore(t *testing.T) {
	t.Parallel()
	server := start(t, natsserver.Options{Addr: "127.0.0.1:0"})
	b := connect(t, natsbus.Options{Server: server})
	const letters = 20 // together larger than what the server sends before an answer
	for n := range letters {
		require.NoError(t, b.DeadLetter(patient(t), event.DeadLetter{
			Version: event.Version, Reason: "malformed", Subject: "fanmail.v1.published", Payload: bytes.Repeat([]byte{byte(n)}, 700_000),
		}))
	}
	require.NoError(t, b.Drop(patient(t), 1))
	_, err := admin(t, server).Publish(t.Context(), "fanmail.v1.login", []byte(`{"v":1,"user":"ann"}`))
	require.NoError(t, err)
	before, err := b.DeadLetters(patient(t), 0, letters)
	require.NoError(t, err)
	require.Len(t, before, letters-1)

	dir := t.TempDir()
	saved := false
	require.NoError(t, b.Save(patient(t), dir, func() error {
		saved = true
		return nil
	}))
	require.True(t, saved)

	other := start(t, natsserver.Options{Addr: "127.0.0.1:0"})
	require.NoError(t, natsbus.Restore(patient(t), other, dir))
	b = connect(t, natsbus.Options{Server: other})
	after, err := b.DeadLetters(patient(t), 0, letters)
	require.NoError(t, err)
	require.Equal(t, before, after)
	logins, err := b.FetchLogins(patient(t), 10)
	require.NoError(t, err)
	require.Len(t, logins, 1)
	require.JSONEq(t, `{"v":1,"user":"ann"}`, string(logins[0].Delivery().Payload))
}

// A dead letter is neither filed nor removed while the store is being saved.
func TestSaveKeepsTheDeadLetters(t *testing.T) {
	t.Parallel()
	b := newBus(t, natsbus.Options{})
	letter := event.DeadLetter{Version: event.Version, Reason: "malformed", Subject: "fanmail.v1.published", Payload: []byte("{")}
	require.NoError(t, b.DeadLetter(patient(t), letter))
	broken := errors.New("the disk is full")
	err := b.Save(patient(t), t.TempDir(), func() error {
		ended, end := context.WithCancel(patient(t))
		end()
		require.ErrorIs(t, b.DeadLetter(ended, letter), context.Canceled)
		require.ErrorIs(t, b.Drop(ended, 1), context.Canceled)
		found, err := b.DeadLetters(patient(t), 0, 10)
		require.NoError(t, err)
		require.Len(t, found, 1)
		return broken
	})
	require.ErrorIs(t, err, broken)
	require.NoError(t, b.Drop(patient(t), 1))
}

// What cannot be restored is an error.
func TestRestoreFails(t *testing.T) {
	t.Parallel()
	b := newBus(t, natsbus.Options{})
	dir := t.TempDir()
	require.NoError(t, b.Save(patient(t), dir, func() error { return nil }))
	require.ErrorIs(t, b.Save(patient(t), dir, func() error { return nil }), fs.ErrExist)

	path := filepath.Join(dir, natsbus.DeadLetterStream)
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, whole[:len(whole)/2], 0o600))
	require.Error(t, natsbus.Restore(patient(t), start(t, natsserver.Options{}), dir))
	require.NoError(t, os.Remove(path))
	require.ErrorIs(t, natsbus.Restore(patient(t), start(t, natsserver.Options{}), dir), fs.ErrNotExist)
}

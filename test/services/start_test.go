//go:build mongod

package services_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/test/services"
)

// A server that cannot start returns the reason, and leaves no process running.
func TestStartFailsWithTheLog(t *testing.T) {
	t.Parallel()
	program, err := services.FindMongoDB(t.Context())
	require.NoError(t, err)
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "data"), nil, 0o600), "where the data folder should be")
	port, err := services.FreePort(t.Context())
	require.NoError(t, err)
	server := program.NewServer(folder, port)
	server.Kill() // Kill is allowed before Start
	require.NoError(t, server.Stop(t.Context()))
	require.ErrorContains(t, server.Start(t.Context()), "starting "+program.String())
	<-server.Ended()

	require.NoError(t, os.Remove(filepath.Join(folder, "data")))
	require.NoError(t, os.MkdirAll(filepath.Join(folder, "data", "database", "WiredTiger"), 0o700))
	require.NoError(t, os.MkdirAll(filepath.Join(folder, "data", "WiredTiger"), 0o700))
	err = server.Start(t.Context())
	require.ErrorContains(t, err, "it ended at once")
	require.ErrorContains(t, err, "the end of its log:\n")
	<-server.Ended()
	t.Log(err)
}

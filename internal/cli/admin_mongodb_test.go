//go:build mongodb

package cli_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/cli/program"
	"github.com/fanmail/fanmail/test/testenv"
)

func TestAdminInit(t *testing.T) {
	t.Parallel()
	uri, database := testenv.MongoDB(t)
	where := []string{"--store", "mongodb", "--mongodb-uri", uri, "--mongodb-database", database, "--mongodb-timeout", "30s"}
	serve := run{args: append([]string{"serve", "--addr", "127.0.0.1:0", "--data", t.TempDir()}, where...)}.do(t.Context(), t)
	require.Equal(t, program.ExitFailed, serve.code)
	require.Contains(t, serve.stderr, "is not initialized: run fanmail admin init")

	for range 2 { // the command is idempotent
		require.Equal(t, "the database "+database+" is ready, with 16 partitions\n", fanmail(t, append([]string{"admin", "init"}, where...)...))
	}
	other := run{args: append([]string{"admin", "init", "--partitions", "8"}, where...)}.do(t.Context(), t)
	require.Equal(t, program.ExitFailed, other.code)
	require.Contains(t, other.stderr, "number of partitions differs")
	sharded := run{args: append([]string{"admin", "init", "--shard"}, where...)}.do(t.Context(), t)
	require.Equal(t, program.ExitFailed, sharded.code)
	require.Contains(t, sharded.stderr, "is no mongos")
}

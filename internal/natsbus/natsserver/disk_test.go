package natsserver_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/natsbus/natsserver"
)

const diskVariable = "FANMAIL_TEST_DISK"

// A stream that cannot be written would refuse everything until a restart, also after the disk has room again. So the process ends.
func TestBrokenDiskEndsTheProcess(t *testing.T) {
	t.Parallel()
	if dir := os.Getenv(diskVariable); dir != "" {
		fillBrokenStream(t, dir)
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	child := exec.CommandContext(ctx, os.Args[0], "-test.v", "-test.run=^TestBrokenDiskEndsTheProcess$")
	child.Env = append(os.Environ(), diskVariable+"="+t.TempDir())
	out, err := child.CombinedOutput()
	require.NoError(t, ctx.Err(), "%s", out)
	require.Error(t, err, "%s", out)
	require.Contains(t, string(out), "panic: natsserver: a stream cannot be written")
}

// fillBrokenStream publishes until the server needs a file in a folder that is none any more.
func fillBrokenStream(t *testing.T, dir string) {
	t.Helper()
	server := start(t, natsserver.Options{Dir: dir, Logger: zerolog.New(os.Stderr)})
	conn, err := nats.Connect("", nats.InProcessServer(server))
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	require.NoError(t, err)
	_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}})
	require.NoError(t, err)
	found, err := filepath.Glob(filepath.Join(dir, "jetstream", "*", "streams", "S", "msgs"))
	require.NoError(t, err)
	require.Len(t, found, 1)
	require.NoError(t, os.Rename(found[0], found[0]+".away"))
	require.NoError(t, os.WriteFile(found[0], nil, 0o600))
	for range 64 {
		_, err = js.Publish(t.Context(), "s", make([]byte, 512<<10))
	}
	t.Log("survived", err)
}

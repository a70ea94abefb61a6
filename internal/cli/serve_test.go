package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/cli"
	"github.com/fanmail/fanmail/internal/cli/program"
	"github.com/fanmail/fanmail/internal/telemetry/telemetrytest"
	"github.com/fanmail/fanmail/pkg/client"
)

func TestServe(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ctx, interrupt := context.WithCancel(t.Context())
	logs, stderr := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- cli.Main(ctx, program.Process{
			Args: []string{
				"serve", "--addr", "127.0.0.1:0", "--data", dir, "--log-format", "json",
				"--nats-max-published", "16MiB", "--nats-max-fanout", "16MiB", "--nats-max-dlq", "16MiB",
			},
			Stdin: &bytes.Buffer{}, Stdout: io.Discard, Stderr: stderr,
			Now: time.Now, Width: func(io.Writer) int { return 0 },
		})
		_ = stderr.Close()
	}()
	t.Cleanup(interrupt)

	var ready struct{ URL, Data string }
	log := json.NewDecoder(logs)
	for ready.URL == "" {
		require.NoError(t, log.Decode(&ready))
	}
	require.Equal(t, dir, ready.Data)
	drained := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, logs)
		drained <- err
	}()
	c, err := client.New(ready.URL, client.Options{})
	require.NoError(t, err)
	_, err = c.Inbox(t.Context(), "ben", client.InboxOptions{})
	require.NoError(t, err)
	c.Close()

	second := run{args: []string{"serve", "--addr", "127.0.0.1:0", "--data", dir}}.do(t.Context(), t)
	require.Equal(t, program.ExitFailed, second.code, "a folder belongs to one process")
	require.Contains(t, second.stderr, dir)
	require.Contains(t, second.stderr, "is in use by another process")
	require.Contains(t, second.stderr, "; --data or FANMAIL_DATA names the data folder\n")
	requireOneLine(t, second.stderr)

	interrupt()
	require.Equal(t, program.ExitDone, <-code)
	require.NoError(t, <-drained)
}

// A server that cannot start names the flag and the variable of what is in its way.
func TestServeNamesWhatIsInItsWay(t *testing.T) {
	t.Parallel()
	var lc net.ListenConfig
	taken, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, taken.Close()) })
	noFolder := file(t, "file", "")
	foreign := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(foreign, "store"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(foreign, "store", "letter.txt"), nil, 0o600))
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"a port that is taken": {
			[]string{"--addr", taken.Addr().String()}, "listen on " + taken.Addr().String() +
				": bind: address already in use: is another server running there? --addr or FANMAIL_ADDR takes another address\n",
		},
		"an address of another host": {
			[]string{"--addr", "192.0.2.1:0", "--insecure"}, "bind: cannot assign requested address: --addr or FANMAIL_ADDR takes another address\n",
		},
		"a data folder that is a file": {[]string{"--data", noFolder}, "not a directory; --data or FANMAIL_DATA names the data folder\n"},
		"a folder of something else":   {[]string{"--data", foreign}, "(letter.txt is one); --data or FANMAIL_DATA names the data folder\n"},
		"a port for NATS that is taken": {
			[]string{"--nats-listen", taken.Addr().String()}, "; --nats-listen or FANMAIL_NATS_LISTEN names the address " + taken.Addr().String() + "\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := run{args: append([]string{"serve", "--addr", "127.0.0.1:0", "--data", t.TempDir()}, test.args...)}.do(t.Context(), t)
			require.Equal(t, program.ExitFailed, got.code)
			require.Contains(t, got.stderr, test.want)
		})
	}
}

// A server that waits for NATS logs its address, without the password.
func TestServeNamesTheBusItWaitsFor(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	logs, ended := &telemetrytest.Buffer{}, make(chan int, 1)
	go func() {
		ended <- cli.Main(ctx, program.Process{
			Args: []string{
				"serve", "--addr", "127.0.0.1:0", "--data", t.TempDir(), "--nats-url", "nats://joe:hunter2@127.0.0.1:1", "--log-format", "json",
			},
			Stdin: &bytes.Buffer{}, Stdout: io.Discard, Stderr: logs, Now: time.Now, Width: func(io.Writer) int { return 0 },
		})
	}()
	require.Eventually(t, func() bool { return strings.Contains(logs.String(), "the bus does not answer: waiting for it") }, time.Minute, 10*time.Millisecond)
	stop()
	require.Equal(t, program.ExitDone, <-ended)
	require.Contains(t, logs.String(), `"nats_url":"nats://joe:*****@127.0.0.1:1"`)
	require.NotContains(t, logs.String(), "hunter2")
}

// The demo fails if one of its checks does.
func TestDemo(t *testing.T) {
	t.Parallel()
	got := fanmail(t, "demo")
	for _, want := range []string{"published   11 messages", "delivered   17,511 copies", "skipped     2,500", "saw 10 messages after", "The inbox of fan-0001", "Checked: ", "Next: fanmail serve"} {
		require.Contains(t, got, want)
	}
}

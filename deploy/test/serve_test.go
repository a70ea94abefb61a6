package deploy_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What is waited for takes a second or so; a machine that has much else to do may take as long as patience.
const (
	patience = 2 * time.Minute
	tick     = 20 * time.Millisecond
)

// serveFrom runs all roles in one process on a data folder, with additions to the environment. It returns a function that runs a
// command against the server and returns what it prints, and one that stops the server, which the end of the test does otherwise.
func serveFrom(t *testing.T, data string, env ...string) (fanmail func(args ...string) string, stop func()) {
	t.Helper()
	env = append(env, "FANMAIL_ADDR=127.0.0.1:0", "FANMAIL_DATA="+data)
	log, stop := start(t, env, "serve")
	require.NotContains(t, log.String(), natsPassword)
	return func(args ...string) string {
		t.Helper()
		return output(t, ".", filepath.Join(binaries(t), "fanmail"), append(args, "--server", log.url())...)
	}, stop
}

// start starts fanmail with additions to the environment, and waits until it is ready. It returns its log, and a function that stops it,
// which the end of the test does otherwise.
func start(t *testing.T, env []string, args ...string) (log *logged, stop func()) {
	t.Helper()
	log = new(logged)
	cmd := exec.Command(filepath.Join(binaries(t), "fanmail"), args...) //nolint:noctx // it is asked to stop
	cmd.Stderr = log
	cmd.Env = append(os.Environ(), append(env, "FANMAIL_LOG_FORMAT=json")...)
	require.NoError(t, cmd.Start())
	stop = sync.OnceFunc(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	})
	t.Cleanup(stop)
	require.Eventually(t, func() bool { return log.url() != "" }, patience, tick, "%s", log)
	return log, stop
}

// logged is a log that can be read while it is written.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// url returns where the server listens, or nothing as long as it is not ready.
func (l *logged) url() string {
	_, after, _ := strings.Cut(l.String(), `"url":"`)
	url, _, _ := strings.Cut(after, `"`)
	return url
}

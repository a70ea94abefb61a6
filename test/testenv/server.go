package testenv

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/pkg/message"
)

// Site is the data and the address of a server. Servers can follow one another on it.
type Site struct {
	// Data is the data folder.
	Data string
	// Addr is the address of the servers. It stays the same, so that clients find the next server.
	Addr string
	// Settings are keys of the configuration that differ from its defaults.
	Settings map[string]string
	// Provoked are the errors that a test provokes, such as those of a killed bus. RequireSound ignores log lines with them. Most
	// tests have none.
	Provoked []error
	// Probe is the interval at which the front polls the readiness of each process. The front sends requests only to ready
	// processes. If Probe is 0, the front sends them to every process that listens.
	Probe time.Duration
	// Clocks are wrong clocks in the syntax of test/wrongclock. Each started process gets a random one. Without any, all processes
	// have the system's clock.
	Clocks []string
	// NATSConfig, unless it is empty, is a file with more configuration of the NATS server of StartApart. RestartNATS reads it again.
	NATSConfig string
}

// NewSite returns a site with an empty data folder, which is removed when the test ends.
func NewSite(t *testing.T, settings map[string]string) *Site {
	t.Helper()
	return &Site{Data: t.TempDir(), Addr: freeAddr(t), Settings: settings}
}

// URL returns the address of the HTTP interface.
func (s *Site) URL() string { return "http://" + s.Addr }

// taken has the locks of the ports that this process has claimed.
var taken sync.Map

// claim locks a port for the lifetime of this process. It returns false if another process has the lock. The lock is needed because
// the port of a stopped server looks free.
func claim(t *testing.T, port int) bool {
	t.Helper()
	folder := filepath.Join(os.TempDir(), "fanmail-ports") //nolint:usetesting // shared with the tests of other packages
	require.NoError(t, os.MkdirAll(folder, 0o700))
	lock, err := os.OpenFile(filepath.Join(folder, strconv.Itoa(port)), os.O_CREATE|os.O_RDWR, 0o600)
	require.NoError(t, err)
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		require.NoError(t, lock.Close())
		return false
	}
	taken.Store(port, lock) // a lock without a reference would be closed by the garbage collector
	return true
}

// freeAddr returns an address on which no process listens. Its port is below the range of outgoing connections. Otherwise an
// outgoing connection could take the port while no server is running.
func freeAddr(t *testing.T) string {
	t.Helper()
	const first, last, tries = 20_000, 30_000, 100
	for range tries {
		port := first + rand.IntN(last-first)
		if !claim(t, port) {
			continue
		}
		addr := fmt.Sprintf("127.0.0.1:%d", port)
		var config net.ListenConfig
		if listener, err := config.Listen(t.Context(), "tcp", addr); err == nil {
			require.NoError(t, listener.Close())
			return addr
		}
	}
	require.Fail(t, "there is no free port")
	return ""
}

// FreePort returns a port on which no process listens, and which no other site gets.
func FreePort(t *testing.T) string {
	t.Helper()
	_, port, err := net.SplitHostPort(freeAddr(t))
	require.NoError(t, err)
	return port
}

// Server is a running server.
type Server struct {
	*Process
	url      string
	provoked []error
}

// URLs returns the URLs of all processes, which are the server.
func (s *Server) URLs() []string { return []string{s.url} }

// Start starts "fanmail serve" on the site, and returns when it is ready.
func (s *Site) Start(ctx context.Context, t *testing.T, binary string) *Server {
	t.Helper()
	server := &Server{s.exec(ctx, t, s.settings(), binary, "serve"), s.URL(), s.Provoked}
	server.awaitReady(ctx, s.URL())
	return server
}

// StartProgram starts a program of a role, or one that dies at the failpoint in the arguments. It returns when the program is ready or dead.
func (s *Site) StartProgram(ctx context.Context, t *testing.T, binary string, args ...string) *Server {
	t.Helper()
	server := &Server{Exec(ctx, t, s.settings(), binary, args...), s.URL(), s.Provoked}
	server.awaitReady(ctx, s.URL())
	return server
}

// UseMongoDB makes the servers of the site keep their data in a MongoDB database, and prepares the database.
func (s *Site) UseMongoDB(ctx context.Context, t *testing.T, binary, uri, database string) {
	t.Helper()
	settings := map[string]string{"store": "mongodb", "mongodb.uri": uri, "mongodb.database": database}
	if text := s.Settings["clock_tolerance"]; text != "" {
		tolerance, err := time.ParseDuration(text)
		require.NoError(t, err)
		settings["mongodb.timeout"] = (tolerance / 4).String() // the greatest accepted value
	}
	maps.Copy(settings, s.Settings)
	s.Settings = settings
	// The servers use the settings that are recorded now. A small tolerance limits the timeout, and a busy database may create only
	// some collections and indexes in that time. The next try continues.
	const tries = 30
	for try := 1; Exec(ctx, t, s.settings(), binary, "admin", "init").Code(ctx) != 0; try++ {
		require.Less(t, try, tries, "the database cannot be prepared")
	}
}

// exec starts a program of the product, with a wrong clock if the site has clocks.
func (s *Site) exec(ctx context.Context, t *testing.T, settings map[string]string, binary string, args ...string) *Process {
	t.Helper()
	if len(s.Clocks) > 0 {
		clock := s.Clocks[rand.IntN(len(s.Clocks))]
		args = append([]string{"-clock", clock, filepath.Base(binary)}, args...)
		binary = filepath.Join(filepath.Dir(binary), "wrongclock") // Build puts all programs into one folder
	}
	return Exec(ctx, t, settings, binary, args...)
}

func (s *Site) settings() map[string]string {
	settings := map[string]string{"addr": s.Addr, "data": s.Data, "log.format": "json", "drain_delay": "0s"}
	maps.Copy(settings, s.Settings)
	return settings
}

// awaitReady waits until the server logs that it is ready.
func (s *Server) awaitReady(ctx context.Context, url string) {
	s.t.Helper()
	Eventually(ctx, s.t, "the server is ready", func() bool {
		if !s.Running() {
			require.True(s.t, s.Killed(), "the server has ended, and not by its failpoint")
			return true
		}
		return ready(s.Stderr(), url)
	})
}

// ready reports whether a log has the line that the process is ready at a URL.
func ready(log, url string) bool {
	for line := range strings.Lines(log) {
		var logged struct{ Message, URL string }
		if json.Unmarshal([]byte(line), &logged) == nil && logged.Message == "fanmail is ready" && logged.URL == url {
			return true
		}
	}
	return false
}

// Stop terminates the server and requires that it ends without errors.
func (s *Server) Stop(ctx context.Context) {
	s.t.Helper()
	s.Terminate()
	require.Zero(s.t, s.Code(ctx), "the server exits with an error")
	s.RequireSound()
}

// slowness has causes of errors on a busy machine, on which the store or the bus answers too late. The server tries again, and
// other checks of the test show whether it succeeds.
var slowness = []error{context.DeadlineExceeded, message.ErrUnavailable, bus.ErrUnavailable}

// RequireSound requires that the log has no data race, no panic, and no error except provoked ones and those caused by slowness.
func (s *Server) RequireSound() {
	s.t.Helper()
	for line := range strings.Lines(s.Stderr()) {
		for _, trouble := range []string{"DATA RACE", "panic:"} {
			require.NotContains(s.t, line, trouble)
		}
		expected := slices.ContainsFunc(slices.Concat(s.provoked, slowness), func(err error) bool { return strings.Contains(line, err.Error()) })
		if !expected {
			require.NotContains(s.t, line, `"level":"error"`)
		}
	}
}

// Eventually waits until a condition is true. The test fails if ctx ends first.
func Eventually(ctx context.Context, t *testing.T, what string, condition func() bool) {
	t.Helper()
	const first, longest = 5 * time.Millisecond, 50 * time.Millisecond // polling must not take much time from the server
	timer := time.NewTimer(first)
	defer timer.Stop()
	for pause := first; !condition(); pause = min(pause*3/2, longest) {
		timer.Reset(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			require.Fail(t, "waited in vain", "until %s: %v", what, context.Cause(ctx))
		}
	}
}

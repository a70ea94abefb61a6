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

// Site is where a server keeps its data and where it listens. Servers can follow each other on it.
type Site struct {
	// Data is the data folder.
	Data string
	// Addr is where the servers listen: always the same, so that clients find the next one.
	Addr string
	// Settings are keys of the configuration that differ from its defaults.
	Settings map[string]string
	// Provoked are the errors that a test provokes on purpose, such as that of a bus which it has killed: RequireSound passes over
	// lines that tell of them. Most tests have none.
	Provoked []error
	// Probe is how often the front of roles apart asks each process whether it is ready, to send requests to nobody else. If it is 0, the
	// front sends them to whoever listens.
	Probe time.Duration
	// Clocks are wrong clocks, as test/wrongclock takes them. Each process that starts gets one at random. None means that all
	// processes have the system's clock.
	Clocks []string
}

// NewSite returns a site with an empty data folder, which is removed when the test ends.
func NewSite(t *testing.T, settings map[string]string) *Site {
	t.Helper()
	return &Site{Data: t.TempDir(), Addr: freeAddr(t), Settings: settings}
}

// URL returns the address of the HTTP interface.
func (s *Site) URL() string { return "http://" + s.Addr }

// taken are the locks of the ports that this process has been given.
var taken sync.Map

// claim takes a port for as long as this process lives, and tells whether nobody else has: those of servers that are down look free.
func claim(t *testing.T, port int) bool {
	t.Helper()
	folder := filepath.Join(os.TempDir(), "fanmail-ports") //nolint:usetesting // which the tests of other packages share
	require.NoError(t, os.MkdirAll(folder, 0o700))
	lock, err := os.OpenFile(filepath.Join(folder, strconv.Itoa(port)), os.O_CREATE|os.O_RDWR, 0o600)
	require.NoError(t, err)
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		require.NoError(t, lock.Close())
		return false
	}
	taken.Store(port, lock) // which would be closed, and given up, if nobody knew it
	return true
}

// freeAddr returns an address on which nobody listens. Its port is below those that the operating system gives to outgoing
// connections, one of which could otherwise take it while no server is running.
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

// FreePort returns a port on which nobody listens, and which no other site gets.
func FreePort(t *testing.T) string {
	t.Helper()
	_, port, err := net.SplitHostPort(freeAddr(t))
	require.NoError(t, err)
	return port
}

// Server is a running server.
type Server struct {
	*Process
	provoked []error
}

// Start starts "fanmail serve" on the site, and returns when it is ready.
func (s *Site) Start(ctx context.Context, t *testing.T, binary string) *Server {
	t.Helper()
	server := &Server{s.exec(ctx, t, s.settings(), binary, "serve"), s.Provoked}
	server.awaitReady(ctx, s.URL())
	return server
}

// StartFaulty starts a server that dies at a failpoint, which the arguments tell, and returns when it is ready or dead.
func (s *Site) StartFaulty(ctx context.Context, t *testing.T, binary string, args ...string) *Server {
	t.Helper()
	server := &Server{Exec(ctx, t, s.settings(), binary, args...), s.Provoked}
	server.awaitReady(ctx, s.URL())
	return server
}

// UseMongoDB lets the servers of the site keep their data in a database on a MongoDB server, which is prepared for that.
func (s *Site) UseMongoDB(ctx context.Context, t *testing.T, binary, uri, database string) {
	t.Helper()
	settings := map[string]string{"store": "mongodb", "mongodb.uri": uri, "mongodb.database": database}
	if text := s.Settings["clock_tolerance"]; text != "" {
		tolerance, err := time.ParseDuration(text)
		require.NoError(t, err)
		settings["mongodb.timeout"] = (tolerance / 4).String() // the most that is accepted
	}
	maps.Copy(settings, s.Settings)
	s.Settings = settings
	// The settings are recorded now, so they are those of the servers. A small tolerance bounds the timeout, in which a busy database
	// creates only some of the collections and indexes: the next try goes on there.
	const tries = 30
	for try := 1; Exec(ctx, t, s.settings(), binary, "admin", "init").Code(ctx) != 0; try++ {
		require.Less(t, try, tries, "the database cannot be prepared")
	}
}

// exec starts a program of the product: with a wrong clock if the site has any.
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

// awaitReady waits for the line in which the server says that it is ready.
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

// ready tells whether a log says that its process is ready at a URL.
func ready(log, url string) bool {
	for line := range strings.Lines(log) {
		var logged struct{ Message, URL string }
		if json.Unmarshal([]byte(line), &logged) == nil && logged.Message == "fanmail is ready" && logged.URL == url {
			return true
		}
	}
	return false
}

// Stop asks the server to end, and requires that it does so without complaint.
func (s *Server) Stop(ctx context.Context) {
	s.t.Helper()
	s.Terminate()
	require.Zero(s.t, s.Code(ctx), "the server exits with an error")
	s.RequireSound()
}

// slowness are the causes of errors on a machine that is so busy that the store or the bus answers too late. The server tries again,
// and the test finds out by other means whether it succeeds.
var slowness = []error{context.DeadlineExceeded, message.ErrUnavailable, bus.ErrUnavailable}

// RequireSound requires that the server has met nothing that must not happen: no data race, no panic, and no error except those that
// were provoked or whose cause is slowness.
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

// Eventually waits until a condition holds. The test fails if that takes longer than ctx.
func Eventually(ctx context.Context, t *testing.T, what string, condition func() bool) {
	t.Helper()
	const first, longest = 5 * time.Millisecond, 50 * time.Millisecond // to look costs what the server that is waited for needs
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

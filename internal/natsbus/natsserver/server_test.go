package natsserver_test

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/natsbus/natsserver"
	"github.com/fanmail/fanmail/test/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func start(t *testing.T, opts natsserver.Options) *natsserver.Server {
	t.Helper()
	if opts.Dir == "" {
		opts.Dir = t.TempDir()
	}
	server, err := natsserver.Start(t.Context(), opts)
	require.NoError(t, err)
	t.Cleanup(server.Stop)
	return server
}

func TestNoAddressNoURL(t *testing.T) {
	t.Parallel()
	require.Empty(t, start(t, natsserver.Options{}).ClientURL())
}

func TestStartRefuses(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	inUse := t.TempDir()
	start(t, natsserver.Options{Dir: inUse})

	for name, test := range map[string]struct {
		dir, addr, want string
	}{
		"no folder":            {"", "", "no folder given"},
		"a folder in a file":   {filepath.Join(file, "bus"), "", "not a directory"},
		"a folder in use":      {inUse, "", "in use by another process"},
		"a port in use":        {t.TempDir(), listener.Addr().String(), "address already in use"},
		"no port":              {t.TempDir(), "127.0.0.1", "missing port"},
		"a port out of range":  {t.TempDir(), "127.0.0.1:65536", `"65536" is not a port`},
		"every interface":      {t.TempDir(), ":4222", "not a loopback address"},
		"an address elsewhere": {t.TempDir(), "192.0.2.1:4222", "not a loopback address"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := natsserver.Start(t.Context(), natsserver.Options{Dir: test.dir, Addr: test.addr})
			require.ErrorContains(t, err, test.want)
		})
	}
}

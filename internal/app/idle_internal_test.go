package app

import (
	"bufio"
	"context"
	"io"
	"math"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/config"
)

func TestShares(t *testing.T) {
	t.Parallel()
	for limit, want := range map[uint64][2]int{
		256: {64, 128}, 1024: {256, 704}, 65_536: {1000, 64_472}, math.MaxUint64: {1000, 1_000_000},
	} {
		files, err := storeFiles(limit)
		require.NoError(t, err)
		places, err := connections(0, limit)
		require.NoError(t, err)
		require.Equal(t, want, [2]int{files, places}, limit)
	}
	_, err := storeFiles(255)
	require.ErrorContains(t, err, "the process may have 255 open files, and the embedded store needs 256")
	places, err := connections(128, 256)
	require.NoError(t, err)
	require.Equal(t, 128, places)
	_, err = connections(129, 256)
	require.ErrorContains(t, err, "http.max_connections is 129, and the limit of open files leaves 128")
}

// Clients that do nothing with their connections lock nobody out, and more connections than allowed are never open.
func TestIdleConnections(t *testing.T) {
	t.Parallel()
	const most = 8
	cfg := config.Default()
	cfg.Addr = "127.0.0.1:0"
	server := newHTTPServer(cfg, zerolog.Nop())
	server.limit(most)
	changed, resting := server.server.ConnState, make(chan struct{}, 100)
	server.server.ConnState = func(conn net.Conn, state http.ConnState) {
		if changed(conn, state); state == http.StateIdle {
			resting <- struct{}{}
		}
	}
	release, working := make(chan struct{}), make(chan struct{}, most+1)
	require.NoError(t, server.start(t.Context(), http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/work" {
			working <- struct{}{}
			<-release
		}
	})))
	t.Cleanup(func() { require.NoError(t, server.stop(context.WithoutCancel(t.Context()))) })
	dial := func() net.Conn {
		var dialer net.Dialer
		conn, err := dialer.DialContext(t.Context(), "tcp", server.addr())
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
		return conn
	}
	send := func(conn net.Conn, path string) {
		_, err := io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: localhost\r\n\r\n")
		require.NoError(t, err)
	}
	answered := func(conn net.Conn) {
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
	}
	closed := func(conn net.Conn) {
		_, err := io.ReadAll(conn)
		require.NoError(t, err)
	}
	var idle []net.Conn
	for range 6 {
		idle = append(idle, dial())
		send(idle[len(idle)-1], "/")
		answered(idle[len(idle)-1])
		<-resting // the answer may come first, and the next one would be idle for longer
	}
	for range 3 * most { // they come and stay, and each is served
		next := dial()
		send(next, "/")
		answered(next)
		<-resting
		idle = append(idle, next)
	}
	for _, conn := range idle[:len(idle)-6] {
		closed(conn)
	}
	for _, conn := range idle[len(idle)-6:] {
		send(conn, "/work") // the last six are still open
		<-working
	}
	var more []net.Conn
	for range 3 {
		more = append(more, dial())
		send(more[len(more)-1], "/work")
	}
	<-working
	<-working
	require.Empty(t, working, "the ninth connection waits")
	close(release)
	for _, conn := range append(idle[len(idle)-6:], more[:2]...) {
		answered(conn)
		require.NoError(t, conn.Close())
	}
	answered(more[2])
}

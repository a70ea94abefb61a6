package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"syscall"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/config"
	"github.com/fanmail/fanmail/internal/telemetry/telemetrytest"
)

// The error of an address says what helps. Only an address that is taken lets another server be suspected.
func TestListenError(t *testing.T) {
	t.Parallel()
	for errno, want := range map[syscall.Errno]string{
		syscall.EADDRINUSE: "listen on :80: bind: address already in use: is another server running there? --addr or FANMAIL_ADDR takes another address",
		syscall.EACCES: "listen on :80: bind: permission denied: use a port above 1023, or allow the process lower ones (CAP_NET_BIND_SERVICE); " +
			"--addr or FANMAIL_ADDR takes another address",
		syscall.EADDRNOTAVAIL: "listen on :80: bind: cannot assign requested address: --addr or FANMAIL_ADDR takes another address",
	} {
		err := listenError(":80", &net.OpError{Op: "listen", Net: "tcp", Addr: &net.TCPAddr{Port: 80}, Err: os.NewSyscallError("bind", errno)})
		require.EqualError(t, err, want)
		require.ErrorIs(t, err, errno)
	}
	unknown := &net.DNSError{Err: "no such host", Name: "nowhere"}
	require.EqualError(t, listenError("nowhere:80", unknown), "listen on nowhere:80: lookup nowhere: no such host: --addr or FANMAIL_ADDR takes another address")
}

// A request that the server cuts off is told from one whose client hangs up by the cause of its context.
func TestCauseOfTheEndOfARequest(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		end  func(server *httpServer, client net.Conn) error
		want error
	}{
		"the client hangs up": {func(_ *httpServer, client net.Conn) error { return client.Close() }, context.Canceled},
		"the server stops": {func(server *httpServer, _ net.Conn) error {
			over, cancel := context.WithCancel(t.Context())
			cancel()
			if err := server.stop(over); !errors.Is(err, context.Canceled) {
				return fmt.Errorf("the request was not cut off: %w", err)
			}
			return nil
		}, errCut},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := config.Default()
			cfg.Addr = "127.0.0.1:0"
			server := newHTTPServer(cfg, zerolog.Nop())
			begun, cause := make(chan struct{}), make(chan error, 1)
			require.NoError(t, server.start(t.Context(), http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				close(begun)
				<-r.Context().Done()
				cause <- context.Cause(r.Context())
			})))
			var dialer net.Dialer
			client, err := dialer.DialContext(t.Context(), "tcp", server.addr())
			require.NoError(t, err)
			defer func() { _ = client.Close() }()
			_, err = client.Write([]byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"))
			require.NoError(t, err)
			<-begun
			require.NoError(t, test.end(server, client))
			require.Equal(t, test.want, <-cause)
			require.NoError(t, server.stop(context.WithoutCancel(t.Context())))
		})
	}
}

// A client that hangs up during the handshake is no warning. One that speaks no TLS is.
func TestTroubleWithAConnection(t *testing.T) {
	t.Parallel()
	for trouble, level := range map[string]string{
		"http: TLS handshake error from 127.0.0.1:5: EOF":                                                               "debug",
		"http: TLS handshake error from 127.0.0.1:5: read tcp 127.0.0.1:6->127.0.0.1:5: read: connection reset by peer": "debug",
		"http: TLS handshake error from 127.0.0.1:5: client sent an HTTP request to an HTTPS server":                    "warn",
	} {
		log := &telemetrytest.Buffer{}
		_, err := connectionErrors{zerolog.New(log)}.Write([]byte(trouble + "\n"))
		require.NoError(t, err)
		require.Contains(t, log.String(), `{"level":"`+level+`","trouble":"`+trouble+`","message":"`)
	}
}

package natsbus

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestABrokenConnectionMakesTheBusUnavailable(t *testing.T) {
	t.Parallel()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, listener.Close()) }()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", listener.Addr().String())
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	server, err := listener.Accept()
	require.NoError(t, err)
	require.NoError(t, server.(*net.TCPConn).SetLinger(0)) // the end of a killed server resets its connections
	require.NoError(t, server.Close())
	for err == nil {
		_, err = conn.Write([]byte("PUB a 1\r\nb\r\n"))
	}
	require.ErrorIs(t, classify(t.Context(), "emit tasks", err), ErrUnavailable)
}

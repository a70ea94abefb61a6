package natsbus

import (
	"net"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/bus"
)

func TestDescriptionsAreThoseOfTheServer(t *testing.T) {
	t.Parallel()
	require.EqualError(t, server.ErrMaxBytes, storeMaxBytes)
	require.EqualError(t, server.ErrMaxMsgs, storeMaxMessages)
	require.EqualError(t, server.ErrStoreMsgNotFound, storeNotFound)
	require.EqualError(t, server.ErrStoreEOF, storeEnd)
}

func TestABrokenConnectionMakesTheBusUnavailable(t *testing.T) {
	t.Parallel()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, listener.Close()) }()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", listener.Addr().String())
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	accepted, err := listener.Accept()
	require.NoError(t, err)
	require.NoError(t, accepted.(*net.TCPConn).SetLinger(0)) // a killed server resets its connections
	require.NoError(t, accepted.Close())
	for err == nil {
		_, err = conn.Write([]byte("PUB a 1\r\nb\r\n"))
	}
	require.ErrorIs(t, classify(t.Context(), "emit tasks", err), bus.ErrUnavailable)
}

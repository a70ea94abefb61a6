package main

import (
	"io"
	"net"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFlags(t *testing.T) {
	t.Parallel()
	o, err := parse(nil, io.Discard)
	require.NoError(t, err)
	require.Equal(t, 10_000, o.followers)
	require.Equal(t, 3, o.messages)
	require.Equal(t, 3, o.runs)
	for _, wrong := range [][]string{
		{"--followers=0"}, {"--messages", "0"}, {"--runs=-1"}, {"--body=3"}, {"--body=10001"}, {"--nonsense"}, {"more"},
	} {
		_, err := parse(wrong, io.Discard)
		require.Error(t, err, "%q", wrong)
	}
}

// The flags of the other processes carry what they have to agree on.
func TestChildFlags(t *testing.T) {
	t.Parallel()
	o, err := parse([]string{
		"--followers=11", "--messages=12", "--body=50", "--redis-port=13", "--postgres-port=14", "--fanmail-port=15",
	}, io.Discard)
	require.NoError(t, err)
	child, err := parse(o.childFlags(peer{perJob: 16}), io.Discard)
	require.NoError(t, err)
	o.perJob = 16
	require.Equal(t, o, child)
}

func TestPortsFree(t *testing.T) {
	t.Parallel()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address, ok := listener.Addr().(*net.TCPAddr)
	require.True(t, ok)
	taken := options{postgres: address.Port} // port 0 is any free port
	require.ErrorContains(t, taken.portsFree(t.Context()), "--postgres-port "+strconv.Itoa(address.Port))
	require.NoError(t, listener.Close())
	require.NoError(t, options{}.portsFree(t.Context()))
}

// Every row has a name of its own and says what it promises.
func TestPeers(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, p := range peers {
		require.False(t, names[p.name], p.name)
		names[p.name] = true
		require.NotEmpty(t, p.delivered, p.name)
		require.NotEmpty(t, p.durable, p.name)
	}
}

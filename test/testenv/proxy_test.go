package testenv_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/test/testenv"
)

// echo is a proxy and a server behind it, which replies to each message with the same message.
type echo struct {
	*testenv.Proxy
	received atomic.Int64
}

func newEcho(t *testing.T) *echo {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	e := &echo{}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer func() { _ = conn.Close() }()
				buffer := make([]byte, len(command("")))
				for {
					if _, err := io.ReadFull(conn, buffer); err != nil {
						return
					}
					e.received.Add(1)
					if _, err := conn.Write(buffer); err != nil {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		running.Wait()
	})
	e.Proxy = testenv.NewProxy(t, "mongodb://"+listener.Addr().String())
	return e
}

// command returns a message of 50 bytes that begins like a MongoDB command.
func command(name string) []byte {
	message := make([]byte, 50)
	binary.LittleEndian.PutUint32(message, uint32(len(message)))
	copy(message[16+4+1+4+1:], name)
	return message
}

// connect returns a connection to the proxy.
func (e *echo) connect(t *testing.T) net.Conn {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", e.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func send(t *testing.T, conn net.Conn, name string) {
	t.Helper()
	_, err := conn.Write(command(name))
	require.NoError(t, err)
}

func requireReply(t *testing.T, conn net.Conn, want []byte) {
	t.Helper()
	got := make([]byte, len(want))
	_, err := io.ReadFull(conn, got)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

func requireClosed(t *testing.T, conn net.Conn) {
	t.Helper()
	n, err := conn.Read(make([]byte, 1))
	require.Error(t, err, "%d bytes arrived", n)
}

// awaitWaiting waits until the fault has stopped a message.
func (e *echo) awaitWaiting(t *testing.T) {
	t.Helper()
	testenv.Eventually(t.Context(), t, "the proxy has stopped a message", func() bool { return e.Waiting() == 1 })
}

func TestProxyRefuse(t *testing.T) {
	t.Parallel()
	e := newEcho(t)
	conn := e.connect(t)
	send(t, conn, "find")
	requireReply(t, conn, command("find"))
	e.Set(t, testenv.Fault{Refuse: true})
	requireClosed(t, conn)
	_, err := new(net.Dialer).DialContext(t.Context(), "tcp", e.Addr())
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	e.Set(t, testenv.Fault{})
	conn = e.connect(t)
	send(t, conn, "find")
	requireReply(t, conn, command("find"))
}

func TestProxyReset(t *testing.T) {
	t.Parallel()
	e := newEcho(t)
	conn := e.connect(t)
	e.Set(t, testenv.Fault{Reset: true})
	send(t, conn, "find")
	_, err := conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, syscall.ECONNRESET)
	require.Zero(t, e.received.Load())
}

func TestProxyBlackHole(t *testing.T) {
	t.Parallel()
	e := newEcho(t)
	conn := e.connect(t)
	e.Set(t, testenv.Fault{BlackHole: true})
	send(t, conn, "find")
	e.awaitWaiting(t)
	e.Set(t, testenv.Fault{})
	requireClosed(t, conn)
	require.Zero(t, e.received.Load())
}

func TestProxyHoldWrites(t *testing.T) {
	t.Parallel()
	e := newEcho(t)
	writer, reader := e.connect(t), e.connect(t)
	e.Set(t, testenv.Fault{HoldWrites: true})
	send(t, writer, "insert")
	e.awaitWaiting(t)
	send(t, reader, "find")
	requireReply(t, reader, command("find"))
	require.EqualValues(t, 1, e.received.Load(), "the server has the read alone")
	require.NoError(t, writer.Close())
	require.Equal(t, 1, e.Set(t, testenv.Fault{}))
	<-e.Answered()
	require.EqualValues(t, 2, e.received.Load(), "the write arrives although its client has hung up")
}

func TestProxyDelay(t *testing.T) {
	t.Parallel()
	e := newEcho(t)
	conn := e.connect(t)
	for name, fault := range map[string]testenv.Fault{
		"request": {Request: 10 * time.Millisecond}, "reply": {Reply: 10 * time.Millisecond}, "rate": {Rate: 10_000}, // 5 ms per message
	} {
		e.Set(t, fault)
		began := time.Now()
		send(t, conn, "find")
		requireReply(t, conn, command("find"))
		require.GreaterOrEqual(t, time.Since(began), 10*time.Millisecond, name)
	}
	e.Set(t, testenv.Fault{Request: time.Hour})
	send(t, conn, "find")
	e.awaitWaiting(t)
	e.Set(t, testenv.Fault{})
	requireReply(t, conn, command("find"))
}

func TestProxyLose(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fault   testenv.Fault
		arrives []byte
		open    bool
	}{
		"lose":   {testenv.Fault{}, []byte{}, false},
		"cut":    {testenv.Fault{Cut: true}, command("insert")[:25], false},
		"change": {testenv.Fault{Change: bytes.ToUpper}, bytes.ToUpper(command("insert")), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEcho(t)
			test.fault.Lose, test.fault.OnlyWrites = 2, true
			e.Set(t, test.fault)
			conn := e.connect(t)
			for _, name := range []string{"insert", "find"} { // a read is not counted
				send(t, conn, name)
				requireReply(t, conn, command(name))
			}
			send(t, conn, "insert")
			requireReply(t, conn, test.arrives)
			if test.open {
				send(t, conn, "find")
				requireReply(t, conn, command("find"))
			} else {
				requireClosed(t, conn)
				require.EqualValues(t, 3, e.received.Load(), "the server has carried out the command")
			}
			require.Equal(t, 1, e.Lost())
		})
	}
}

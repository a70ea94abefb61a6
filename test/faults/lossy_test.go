//go:build long && mongodb

package faults_test

import (
	"encoding/binary"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// lossy is a network to a server that carries every command, and loses replies: what was asked for has happened, and nobody is told so.
type lossy struct {
	uri  string
	loss loss
	// eligible counts the replies of the kind that may be lost, lost those that were.
	eligible, lost atomic.Int64

	mu    sync.Mutex
	open  []net.Conn
	links sync.WaitGroup
}

// loss says which replies are lost.
type loss struct {
	every  int64 // of so many the last
	writes bool  // only of those to commands that write
	half   bool  // the first half of it arrives
}

// newLossy returns a network that is gone when the test ends.
func newLossy(t *testing.T, uri string, loss loss) *lossy {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	n := &lossy{uri: "mongodb://" + listener.Addr().String() + "/?directConnection=true", loss: loss}
	to := host(t, uri)
	n.links.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", to)
			if err != nil {
				_ = client.Close()
				continue
			}
			n.mu.Lock()
			n.open = append(n.open, client, server)
			n.mu.Unlock()
			n.links.Go(func() { n.link(client, server) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		n.mu.Lock()
		for _, c := range n.open {
			_ = c.Close()
		}
		n.mu.Unlock()
		n.links.Wait()
	})
	return n
}

// link carries commands to the server, one after the other as the driver sends them on a connection, and replies back, until either
// side hangs up or a reply is lost.
func (n *lossy) link(client, server net.Conn) {
	defer func() { _, _ = client.Close(), server.Close() }()
	for {
		command, err := readMessage(client)
		if err != nil {
			return
		}
		if _, err := server.Write(command); err != nil {
			return
		}
		reply, err := readMessage(server)
		if err != nil {
			return
		}
		if (writes(command) || !n.loss.writes) && n.eligible.Add(1)%n.loss.every == 0 {
			n.lost.Add(1)
			if n.loss.half {
				_, _ = client.Write(reply[:len(reply)/2]) // it may have gone
			}
			return
		}
		if _, err := client.Write(reply); err != nil {
			return
		}
	}
}

// readMessage reads a message of MongoDB's wire protocol: its length, in four bytes, comes first and counts itself.
func readMessage(r io.Reader) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, err
	}
	message := make([]byte, binary.LittleEndian.Uint32(length[:]))
	copy(message, length[:])
	_, err := io.ReadFull(r, message[len(length):])
	return message, err
}

// writes tells whether a message is a command that writes. The name of a command is that of the first field of its document, which
// comes after a header of 16 bytes, 4 of flags, 1 that says that a document follows, 4 with its length and 1 with the field's type.
func writes(message []byte) bool {
	const name = 16 + 4 + 1 + 4 + 1
	if len(message) < name {
		return false
	}
	end := slices.Index(message[name:], 0)
	return end > 0 && slices.Contains([]string{"insert", "update", "delete", "findAndModify"}, string(message[name:name+end]))
}

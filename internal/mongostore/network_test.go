package mongostore_test

import (
	"bytes"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// badNetwork stands between clients and a server. It can hold up the commands that write, and carries them to the server when
// they are let go, whether their clients are still there or not. And it can lose the replies to them.
type badNetwork struct {
	uri      string
	server   string
	answered chan struct{} // has one for each command that was held up and that the server has replied to
	every    int64         // the last of so many replies to commands that write is lost; 0 is none
	replies  atomic.Int64
	lost     atomic.Int64

	mu    sync.Mutex
	held  chan struct{} // closed as long as nothing is held up
	open  []net.Conn
	links sync.WaitGroup
}

// newBadNetwork returns a network to a server that is gone when the test is over.
func newBadNetwork(t *testing.T, uri string, every int64) *badNetwork {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	n := &badNetwork{
		uri:    "mongodb://" + listener.Addr().String() + "/?directConnection=true",
		server: options.Client().ApplyURI(uri).Hosts[0], answered: make(chan struct{}, 100), every: every, held: make(chan struct{}),
	}
	close(n.held)
	n.links.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", n.server)
			if err != nil {
				_ = client.Close()
				continue
			}
			n.link(client, server)
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

// link carries what is sent between a client and the server. It does not hang up on the server when the client does.
func (n *badNetwork) link(client, server net.Conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.open = append(n.open, client, server)
	var writing, waited atomic.Bool // a command that writes has no reply yet, and was held up
	n.links.Go(func() {
		buffer := make([]byte, 64<<10)
		for {
			read, err := client.Read(buffer)
			if err != nil {
				return
			}
			if writes(buffer[:read]) {
				writing.Store(true)
				waited.Store(n.wait())
			}
			if _, err := server.Write(buffer[:read]); err != nil {
				return
			}
		}
	})
	n.links.Go(func() {
		buffer := make([]byte, 64<<10)
		for {
			read, err := server.Read(buffer)
			if err != nil {
				_ = client.Close()
				return
			}
			if waited.Swap(false) {
				n.answered <- struct{}{}
			}
			if writing.Swap(false) && n.every > 0 && n.replies.Add(1)%n.every == 0 {
				n.lost.Add(1)
				_, _ = client.Close(), server.Close()
				return
			}
			_, _ = client.Write(buffer[:read]) // it may be gone
		}
	})
}

// writes tells whether what is sent has the beginning of a command that writes.
func writes(chunk []byte) bool {
	for _, name := range []string{"update", "findAndModify", "insert", "delete"} {
		if bytes.Contains(chunk, []byte("\x02"+name+"\x00")) {
			return true
		}
	}
	return false
}

// wait waits while commands are held up, and tells whether it had to.
func (n *badNetwork) wait() bool {
	n.mu.Lock()
	held := n.held
	n.mu.Unlock()
	select {
	case <-held:
		return false
	default:
		<-held
		return true
	}
}

// hold holds up what is sent from now on, until it is let go.
func (n *badNetwork) hold() (letGo func()) {
	held := make(chan struct{})
	n.mu.Lock()
	defer n.mu.Unlock()
	n.held = held
	return func() { close(held) }
}

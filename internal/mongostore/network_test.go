//go:build mongodb

package mongostore_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// badNetwork stands between clients and a server. It can hold up the commands that write, and carries them to the server when
// they are let go, whether their clients are still there or not. And it can lose the replies to them, or let these say that no
// majority has acknowledged what was written, as a replica set does.
type badNetwork struct {
	uri      string
	server   string
	answered chan struct{} // has one for each command that was held up and that the server has replied to
	every    int64         // something befalls the last of so many replies to commands that write; 0 is none
	doubts   bool          // it is doubted, not lost
	replies  atomic.Int64
	lost     atomic.Int64 // replies that were lost or doubted

	mu      sync.Mutex
	held    chan struct{} // closed as long as nothing is held up
	waiting int           // commands that have been held up since hold was called
	open    []net.Conn
	gone    bool
	links   sync.WaitGroup
}

// newBadNetwork returns a network to a server that is gone when the test is over.
func newBadNetwork(t *testing.T, uri string, every int64, doubts bool) *badNetwork {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	n := &badNetwork{
		uri:    "mongodb://" + listener.Addr().String() + "/?directConnection=true",
		server: options.Client().ApplyURI(uri).Hosts[0], answered: make(chan struct{}, 100),
		every: every, doubts: doubts, held: make(chan struct{}),
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
		n.letGo()
		n.mu.Lock()
		n.gone = true
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
	if n.gone {
		_, _ = client.Close(), server.Close()
		return
	}
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
		for {
			reply, err := readMessage(server)
			if err != nil {
				_ = client.Close()
				return
			}
			if waited.Swap(false) {
				n.answered <- struct{}{}
			}
			if writing.Swap(false) && n.every > 0 && n.replies.Add(1)%n.every == 0 {
				n.lost.Add(1)
				if !n.doubts {
					_, _ = client.Close(), server.Close()
					return
				}
				reply = doubted(reply)
			}
			_, _ = client.Write(reply) // it may be gone
		}
	})
}

// readMessage reads a message of MongoDB's protocol, which begins with its length.
func readMessage(from io.Reader) ([]byte, error) {
	length := make([]byte, 4)
	if _, err := io.ReadFull(from, length); err != nil {
		return nil, err
	}
	message := make([]byte, binary.LittleEndian.Uint32(length))
	copy(message, length)
	_, err := io.ReadFull(from, message[4:])
	return message, err
}

// doubted returns a reply that also says that no majority has acknowledged what was written. A reply is a header of 16 bytes, 4
// bytes of flags, the kind of what follows, and a document.
func doubted(reply []byte) []byte {
	const before = 16 + 4 + 1
	var said bson.D
	if err := bson.Unmarshal(reply[before:], &said); err != nil {
		panic(err) // a server sends documents
	}
	doubt := bson.D{{Key: "code", Value: 64}, {Key: "codeName", Value: "WriteConcernFailed"}, {Key: "errmsg", Value: "waiting for replication timed out"}}
	document, err := bson.Marshal(append(said, bson.E{Key: "writeConcernError", Value: doubt}))
	if err != nil {
		panic(err) // it was one before
	}
	reply = append(slices.Clone(reply[:before]), document...)
	binary.LittleEndian.PutUint32(reply, uint32(len(reply)))
	return reply
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
	select {
	case <-held:
		n.mu.Unlock()
		return false
	default:
		n.waiting++
		n.mu.Unlock()
		<-held
		return true
	}
}

// hold holds up what is sent from now on, until it is let go, or the test ends.
func (n *badNetwork) hold() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.held, n.waiting = make(chan struct{}), 0
}

// letGo lets go what was held up, and tells how many commands that are.
func (n *badNetwork) letGo() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	select {
	case <-n.held:
	default:
		close(n.held)
	}
	return n.waiting
}

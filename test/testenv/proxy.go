package testenv

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// Fault describes a fault of a Proxy's network. The zero value has no fault.
type Fault struct {
	// Refuse breaks all connections and refuses new ones.
	Refuse bool
	// Reset answers each request with a TCP reset. The server does not receive the request.
	Reset bool
	// BlackHole drops requests and replies but keeps their connections open. When the fault ends, the proxy closes each connection
	// that has lost a message.
	BlackHole bool
	// HoldWrites keeps commands that write until the fault ends. Then the server receives them, even if the client has hung up.
	HoldWrites bool

	// Request and Reply delay each request and each reply. The end of the fault also ends the delay.
	Request, Reply time.Duration
	// Rate is the number of bytes per second and direction of a connection; 0 is no limit.
	Rate int

	// Lose drops every Lose-th reply and closes its connection; 0 drops none.
	Lose int
	// OnlyWrites counts and loses only replies to commands that write.
	OnlyWrites bool
	// Cut delivers the first half of the reply that Lose selects.
	Cut bool
	// Change replaces the reply that Lose selects. The connection stays open.
	Change func(reply []byte) []byte
}

// Proxy forwards connections of clients to a MongoDB server, with the faults that a test sets.
type Proxy struct {
	addr, server string
	answered     chan struct{}

	mu       sync.Mutex
	fault    Fault
	ended    chan struct{} // closed when fault ends
	waiting  int           // messages that fault has stopped
	replies  int           // replies that Lose has counted since the fault began
	lost     int
	listener net.Listener
	open     map[net.Conn]bool
	running  sync.WaitGroup
}

// NewProxy returns a proxy without faults to the server of a connection string. The proxy is closed when the test ends.
func NewProxy(t *testing.T, uri string) *Proxy {
	t.Helper()
	server := options.Client().ApplyURI(uri)
	require.NoError(t, server.Validate())
	p := &Proxy{
		addr: freeAddr(t), server: server.Hosts[0], answered: make(chan struct{}, 100),
		fault: Fault{Refuse: true}, ended: make(chan struct{}), open: map[net.Conn]bool{},
	}
	p.Set(t, Fault{})
	t.Cleanup(func() {
		p.Set(t, Fault{Refuse: true})
		p.running.Wait()
	})
	return p
}

// Addr returns the address of the proxy, which stays the same while the proxy refuses connections.
func (p *Proxy) Addr() string { return p.addr }

// URI returns the connection string for clients of the proxy.
func (p *Proxy) URI() string { return "mongodb://" + p.addr + "/?directConnection=true" }

// Waiting returns the number of messages that the present fault has held, delayed or dropped.
func (p *Proxy) Waiting() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.waiting
}

// Lost returns the number of replies that were dropped, cut or changed.
func (p *Proxy) Lost() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost
}

// Answered receives one value for each held request that the server has answered.
func (p *Proxy) Answered() <-chan struct{} { return p.answered }

// Set ends the present fault and begins another. It returns the number of messages that the ended fault has stopped.
func (p *Proxy) Set(t *testing.T, fault Fault) (waiting int) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case fault.Refuse && !p.fault.Refuse:
		_ = p.listener.Close()
		for conn := range p.open {
			_ = conn.Close()
		}
	case !fault.Refuse && p.fault.Refuse:
		listener := p.listen(t)
		p.listener = listener
		p.running.Go(func() { p.accept(t.Context(), listener) })
	}
	close(p.ended)
	waiting = p.waiting
	p.fault, p.ended, p.waiting, p.replies = fault, make(chan struct{}), 0, 0
	return waiting
}

// listen listens on the address of the proxy. No other process takes the port, but a program that another test starts holds a copy of a
// listener that was just closed until it is executed. So listen repeats while the address is in use.
func (p *Proxy) listen(t *testing.T) (listener net.Listener) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	Eventually(ctx, t, "the proxy listens on "+p.addr, func() bool {
		var err error
		listener, err = new(net.ListenConfig).Listen(ctx, "tcp", p.addr)
		if !errors.Is(err, syscall.EADDRINUSE) {
			require.NoError(t, err)
		}
		return err == nil
	})
	return listener
}

func (p *Proxy) accept(ctx context.Context, listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		server, err := new(net.Dialer).DialContext(ctx, "tcp", p.server)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		l := &link{Proxy: p, client: client, server: server}
		p.open[client], p.open[server] = true, true
		if p.fault.Refuse {
			_, _ = client.Close(), server.Close()
		}
		p.mu.Unlock()
		p.running.Go(func() {
			var both sync.WaitGroup
			both.Go(l.requests)
			both.Go(l.replies)
			both.Wait()
			p.mu.Lock()
			defer p.mu.Unlock()
			delete(p.open, client)
			delete(p.open, server)
		})
	}
}

// link is a client's connection with its connection to the server.
type link struct {
	*Proxy
	client, server net.Conn
	asked          atomic.Pointer[request] // the request that has no reply yet
	gone           atomic.Bool             // the client has hung up
}

// request is the part of a request that its reply needs.
type request struct{ writes, held bool }

func (l *link) close() { _, _ = l.client.Close(), l.server.Close() }

// requests forwards requests to the server. When the client hangs up, the connection to the server stays open until the last
// request has its reply, because a server may abandon the requests of clients that hang up.
func (l *link) requests() {
	for {
		message, err := readMessage(l.client)
		if err != nil {
			l.gone.Store(true)
			if l.asked.Load() == nil {
				l.close()
			}
			return
		}
		asked := &request{writes: writes(message)}
		if err := l.pass(len(message), asked); err != nil {
			l.close()
			return
		}
		l.asked.Store(asked)
		if _, err := l.server.Write(message); err != nil {
			l.close()
			return
		}
	}
}

// replies forwards replies to the client.
func (l *link) replies() {
	defer l.close()
	for {
		reply, err := readMessage(l.server)
		if err != nil {
			return
		}
		if err := l.pass(len(reply), nil); err != nil {
			return
		}
		asked := l.asked.Swap(nil)
		reply, whole := l.lose(reply, asked != nil && asked.writes)
		_, _ = l.client.Write(reply) // the client may have hung up
		if asked != nil && asked.held {
			l.answered <- struct{}{}
		}
		if !whole || l.gone.Load() {
			return
		}
	}
}

var errDropped = errors.New("the network has dropped the message")

// pass returns nil when the network lets a message through, or errDropped if it drops the message. asked is nil for a reply.
func (l *link) pass(size int, asked *request) error {
	for stopped := true; stopped; {
		l.mu.Lock()
		fault, ended := l.fault, l.ended
		delay := fault.Reply
		if asked != nil {
			delay = fault.Request
		}
		if fault.Rate > 0 {
			delay += time.Duration(size) * time.Second / time.Duration(fault.Rate)
		}
		hold := fault.HoldWrites && asked != nil && asked.writes
		stopped = hold || fault.BlackHole || delay > 0
		if stopped {
			l.waiting++
		}
		l.mu.Unlock()
		switch {
		case fault.Refuse:
			return errDropped
		case fault.Reset && asked != nil:
			_ = l.client.(*net.TCPConn).SetLinger(0) //nolint:forcetypeassert // a TCP listener has accepted it
			return errDropped
		case fault.BlackHole:
			<-ended
			return errDropped
		case hold:
			asked.held = true
			<-ended
		case delay > 0:
			timer := time.NewTimer(delay)
			select {
			case <-timer.C:
				return nil
			case <-ended:
				timer.Stop()
			}
		}
	}
	return nil
}

// lose returns the part of a reply that arrives, and whether the connection stays open.
func (p *Proxy) lose(reply []byte, writes bool) (arrives []byte, whole bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fault.Lose == 0 || (p.fault.OnlyWrites && !writes) {
		return reply, true
	}
	if p.replies++; p.replies%p.fault.Lose != 0 {
		return reply, true
	}
	p.lost++
	switch {
	case p.fault.Change != nil:
		return p.fault.Change(reply), true
	case p.fault.Cut:
		return reply[:len(reply)/2], false
	default:
		return nil, false
	}
}

// readMessage reads a message of MongoDB's wire protocol. The first four bytes are its length, which includes them.
func readMessage(r io.Reader) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, err
	}
	message := make([]byte, max(binary.LittleEndian.Uint32(length[:]), 4))
	copy(message, length[:])
	_, err := io.ReadFull(r, message[len(length):])
	return message, err
}

// writes reports whether a message is a command that writes. The name of the command is the name of the document's first field.
// Before it are a header of 16 bytes, 4 bytes of flags, the kind of the section, 4 bytes of the document's length, and the field's
// type.
func writes(message []byte) bool {
	const name = 16 + 4 + 1 + 4 + 1
	if len(message) < name {
		return false
	}
	end := slices.Index(message[name:], 0)
	return end > 0 && slices.Contains([]string{"insert", "update", "delete", "findAndModify"}, string(message[name:name+end]))
}

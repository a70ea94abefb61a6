// Package natsserver runs a NATS server with JetStream inside this process. It is a package of its own, so that programs that
// connect to a NATS server elsewhere (package natsbus) do not link a server.
package natsserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/rs/zerolog"
)

const (
	// DefaultMaxStoreBytes has room for streams that are larger than their default sizes.
	DefaultMaxStoreBytes = 4 << 30
	// DefaultMaxPayload is far above any task, because a dead letter contains a whole event in base64.
	DefaultMaxPayload = 8 << 20
	// DefaultStartTimeout is how long Start waits until the server accepts connections.
	DefaultStartTimeout = 30 * time.Second
)

// ErrLocked means that another process has the folder open.
var ErrLocked = errors.New("is in use by another process; stop that one, or choose another folder")

// Options configures a Server.
type Options struct {
	// Dir is the folder of the server's streams. The server creates it if necessary. One server at a time can use it.
	Dir string
	// Addr is a loopback address, "host:port", for clients such as the nats command line. Port 0 takes a free port.
	// If Addr is empty, only connections from within this process are possible.
	Addr string
	// MaxStoreBytes limits the sizes of all streams together, in bytes. 0 means DefaultMaxStoreBytes.
	MaxStoreBytes int64
	// MaxPayload is the maximum size of an event in bytes. 0 means DefaultMaxPayload.
	MaxPayload int32
	// SyncAlways makes the server sync every event to disk before it acknowledges the event. Without SyncAlways, a power
	// loss can undo the last two minutes; a killed process loses nothing.
	SyncAlways bool
	// StartTimeout is how long Start waits until the server accepts connections. 0 means DefaultStartTimeout.
	StartTimeout time.Duration
	// Logger receives the log lines of the server. The zero Logger writes nothing.
	Logger zerolog.Logger
}

// Server is a NATS server inside this process. natsbus.Options.Server takes it.
type Server struct {
	ns   *server.Server
	lock *os.File
}

// Start starts a server and returns it when it accepts connections. Close every connection to it before you call Stop.
func Start(ctx context.Context, opts Options) (*Server, error) {
	listen, err := listenOptions(opts.Addr)
	if err != nil {
		return nil, err
	}
	lock, err := lockDir(opts.Dir)
	if err != nil {
		return nil, fmt.Errorf("natsserver: start: %w", err)
	}
	listen.ServerName = "fanmail"
	listen.NoSigs = true
	listen.DisableJetStreamBanner = true
	listen.MaxPayload = cmp.Or(opts.MaxPayload, DefaultMaxPayload)
	listen.JetStream = true
	listen.StoreDir = opts.Dir
	listen.JetStreamMaxStore = cmp.Or(opts.MaxStoreBytes, DefaultMaxStoreBytes)
	listen.SyncAlways = opts.SyncAlways

	timeout := cmp.Or(opts.StartTimeout, DefaultStartTimeout)
	ns, err := server.NewServer(listen)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("natsserver: start: %w", err), lock.Close())
	}
	s := &Server{ns: ns, lock: lock}
	log := &serverLog{logger: opts.Logger}
	ns.SetLoggerV2(log, false, false, false)
	ns.Start()
	switch {
	case log.failure() != nil:
		err = log.failure()
	case ctx.Err() != nil:
		err = ctx.Err()
	case !ns.ReadyForConnections(timeout):
		err = fmt.Errorf("it is not ready after %s", timeout)
	default:
		return s, nil
	}
	s.Stop()
	return nil, fmt.Errorf("natsserver: start: %w", err)
}

// IsListenError reports whether an error of Start is that the server cannot listen on its address. The server itself only tells it as text.
func IsListenError(err error) bool { return strings.Contains(err.Error(), "listening on port") }

// listenOptions returns options with the address to listen on. It accepts loopback addresses only, because the server does
// not authenticate clients.
func listenOptions(addr string) (*server.Options, error) {
	if addr == "" {
		return &server.Options{DontListen: true}, nil
	}
	host, portText, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("natsserver: address: %w", err)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, fmt.Errorf("natsserver: address: %q is not a loopback address: use 127.0.0.1", host)
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("natsserver: address: %q is not a port", portText)
	}
	if port == 0 {
		return &server.Options{Host: host, Port: server.RANDOM_PORT}, nil
	}
	return &server.Options{Host: host, Port: int(port)}, nil
}

// lockDir creates the folder if necessary and locks it for this process. Closing the file releases the lock.
func lockDir(dir string) (*os.File, error) {
	if dir == "" {
		return nil, errors.New("no folder given")
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(filepath.Join(dir, "LOCK"), os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // the configured folder
	if err != nil {
		return nil, err
	}
	if err := lockFile(file); err != nil {
		return nil, errors.Join(fmt.Errorf("folder %s %w: %w", dir, ErrLocked, err), file.Close())
	}
	return file, nil
}

// InProcessConn returns a new connection to the server without a network. It implements nats.InProcessConnProvider.
func (s *Server) InProcessConn() (net.Conn, error) { return s.ns.InProcessConn() }

// ClientURL returns the URL that clients can connect to, or "" if the server does not listen on an address.
func (s *Server) ClientURL() string {
	if s.ns.Addr() == nil {
		return ""
	}
	return s.ns.ClientURL()
}

// Stop stops the server and returns when its files are closed. It is idempotent.
func (s *Server) Stop() {
	s.ns.Shutdown()
	s.ns.WaitForShutdown()
	_ = s.lock.Close() // closing releases the lock; the file is empty
}

package natsbus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/rs/zerolog"
)

const (
	// DefaultMaxStoreBytes leaves room beside the streams' default sizes for larger ones.
	DefaultMaxStoreBytes = 4 << 30
	// maxPayload is the greatest event: far above any task, since a dead letter carries a whole event in base64.
	maxPayload = 8 << 20
	// maxMemoryStore is for streams in memory, of which Fanmail has none.
	maxMemoryStore = 16 << 20
	startWait      = 30 * time.Second
)

// EmbeddedOptions configures an embedded server.
type EmbeddedOptions struct {
	// Dir is the folder that the server keeps its streams in. It is created if it is not there, and belongs
	// to one server at a time.
	Dir string
	// Addr is a loopback address, "host:port", that clients such as the nats command line can connect to;
	// port 0 takes any that is free. Empty means that the server can be reached from within the process only.
	Addr string
	// MaxStoreBytes bounds the sizes of all streams together, in bytes. 0 means DefaultMaxStoreBytes.
	MaxStoreBytes int64
	// SyncAlways has every event on disk before it is acknowledged. Otherwise what was acknowledged within
	// the last two minutes survives the end of the process, and not the end of the machine.
	SyncAlways bool
	// Logger gets what the server logs. The zero Logger writes nothing.
	Logger zerolog.Logger
}

// Server is a NATS server inside this process.
type Server struct {
	ns   *server.Server
	lock *os.File
}

// StartEmbedded starts a server and returns it when it accepts connections. Stop it when every Bus on it
// is closed.
func StartEmbedded(ctx context.Context, opts EmbeddedOptions) (*Server, error) {
	listen, err := listenOptions(opts.Addr)
	if err != nil {
		return nil, err
	}
	lock, err := lockDir(opts.Dir)
	if err != nil {
		return nil, fmt.Errorf("natsbus: start embedded server: %w", err)
	}
	listen.ServerName = "fanmail"
	listen.NoSigs = true
	listen.DisableJetStreamBanner = true
	listen.MaxPayload = maxPayload
	listen.JetStream = true
	listen.StoreDir = opts.Dir
	listen.JetStreamMaxStore = cmp.Or(opts.MaxStoreBytes, DefaultMaxStoreBytes)
	listen.JetStreamMaxMemory = maxMemoryStore
	listen.SyncAlways = opts.SyncAlways

	ns, err := server.NewServer(listen)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("natsbus: start embedded server: %w", err), lock.Close())
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
	case !ns.ReadyForConnections(startWait):
		err = fmt.Errorf("it is not ready after %s", startWait)
	default:
		return s, nil
	}
	s.Stop()
	return nil, fmt.Errorf("natsbus: start embedded server: %w", err)
}

// listenOptions returns options that say where to listen. The embedded server lets everybody in who reaches
// it, so that only this machine may.
func listenOptions(addr string) (*server.Options, error) {
	if addr == "" {
		return &server.Options{DontListen: true}, nil
	}
	host, portText, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("natsbus: address of the embedded server: %w", err)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, fmt.Errorf("natsbus: address of the embedded server: %q is not a loopback address: use 127.0.0.1", host)
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("natsbus: address of the embedded server: %q is not a port", portText)
	}
	if port == 0 {
		return &server.Options{Host: host, Port: server.RANDOM_PORT}, nil
	}
	return &server.Options{Host: host, Port: int(port)}, nil
}

// lockDir creates the folder if need be and takes it for this process, until the file is closed.
func lockDir(dir string) (*os.File, error) {
	if dir == "" {
		return nil, errors.New("there is no folder given")
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(filepath.Join(dir, "LOCK"), os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // it is the configured folder
	if err != nil {
		return nil, err
	}
	if err := lockFile(file); err != nil {
		return nil, errors.Join(fmt.Errorf("folder %s is in use by another process; stop that one, or choose another folder: %w", dir, err), file.Close())
	}
	return file, nil
}

// ClientURL returns the URL that clients can connect to, or "" if the server can be reached from within the
// process only.
func (s *Server) ClientURL() string {
	if s.ns.Addr() == nil {
		return ""
	}
	return s.ns.ClientURL()
}

// Stop stops the server and returns when its files are closed. It may be called more than once.
func (s *Server) Stop() {
	s.ns.Shutdown()
	s.ns.WaitForShutdown()
	_ = s.lock.Close() // closing releases the lock, and nothing was written to the file
}

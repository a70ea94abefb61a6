package app

import (
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log" //nolint:depguard // http.Server takes no other logger
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/net/netutil"

	"github.com/fanmail/fanmail/config"
)

// httpServer is an http.Server that can listen before its final handler exists.
type httpServer struct {
	address  string
	server   *http.Server
	handler  atomic.Pointer[http.Handler]
	draining atomic.Bool
	logger   zerolog.Logger
	tls      *tls.Config // nil for plain HTTP
	listener net.Listener
	most     int // of connections; 0 for no limit
	served   chan struct{}
	// cut ends all requests in progress with a cause that is not that of a client who is gone.
	cut context.CancelCauseFunc
}

// errCut is the cause of the end of requests that took longer than the server had to stop.
var errCut = errors.New("the server stops")

func newHTTPServer(cfg config.Config, logger zerolog.Logger) *httpServer {
	s := &httpServer{address: cfg.Addr, logger: logger, served: make(chan struct{})}
	s.server = &http.Server{
		Handler:           s,
		ReadHeaderTimeout: cfg.HTTP.ReadHeaderTimeout,
		ReadTimeout:       cfg.HTTP.ReadTimeout,
		WriteTimeout:      cfg.HTTP.WriteTimeout,
		IdleTimeout:       cfg.HTTP.IdleTimeout,
		MaxHeaderBytes:    int(cfg.HTTP.MaxHeader),
		Protocols:         new(http.Protocols),
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: streamsPerConnection},
		ErrorLog:          log.New(connectionErrors{logger.Sample(&zerolog.BurstSampler{Burst: 20, Period: 10 * time.Second})}, "", 0),
	}
	s.server.Protocols.SetHTTP1(true)
	s.server.Protocols.SetHTTP2(true)
	s.server.Protocols.SetUnencryptedHTTP2(true)
	return s
}

// streamsPerConnection is how many requests an HTTP/2 connection may have at a time. A gateway holds one open for each user.
const streamsPerConnection = 1000

// limit bounds the number of connections. It is called before start.
func (s *httpServer) limit(connections int) {
	s.most = connections
	s.server.ConnState = (&idleConnections{most: connections, idle: make(map[net.Conn]*list.Element)}).changed
}

// ServeHTTP implements http.Handler.
func (s *httpServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.draining.Load() {
		w.Header().Set("Connection", "close")
	}
	(*s.handler.Load()).ServeHTTP(w, r)
}

// drain makes the server close each connection after its next answer. A client then cannot send another request on a connection
// that is about to be cut. Requests are still served.
func (s *httpServer) drain() { s.draining.Store(true) }

// connectionErrors logs errors of connections, such as those of clients that do not speak TLS.
type connectionErrors struct{ logger zerolog.Logger }

// Write logs one error. It is no warning if the client is gone.
func (c connectionErrors) Write(p []byte) (int, error) {
	trouble := strings.TrimSpace(string(p))
	for _, end := range []string{": EOF", ": connection reset by peer", ": broken pipe"} {
		if strings.HasSuffix(trouble, end) {
			c.logger.Debug().Str("trouble", trouble).Msg("a client has closed its connection")
			return len(p), nil
		}
	}
	c.logger.Warn().Str("trouble", trouble).Msg("trouble with a connection")
	return len(p), nil
}

// addr returns the address of the listener, with the assigned port.
func (s *httpServer) addr() string { return s.listener.Addr().String() }

// serve replaces the handler.
func (s *httpServer) serve(handler http.Handler) { s.handler.Store(&handler) }

// start listens, and serves requests with a handler until stop.
func (s *httpServer) start(ctx context.Context, handler http.Handler) error {
	s.serve(handler)
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", s.address)
	if err != nil {
		return listenError(s.address, err)
	}
	if s.most > 0 {
		listener = netutil.LimitListener(listener, s.most)
	}
	base, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	s.server.BaseContext = func(net.Listener) context.Context { return base }
	s.listener, s.cut = listener, cut
	go func() {
		defer close(s.served)
		serve := s.server.Serve
		if s.tls != nil {
			s.server.TLSConfig = s.tls
			serve = func(l net.Listener) error { return s.server.ServeTLS(l, "", "") }
		}
		if err := serve(listener); !errors.Is(err, http.ErrServerClosed) {
			s.logger.Error().Err(err).Msg("serving HTTP ended")
		}
	}()
	return nil
}

// listenError says what to do about an address that the process cannot listen on.
func listenError(address string, err error) error {
	const other = "--addr or FANMAIL_ADDR takes another address"
	cause := err
	if op, ok := errors.AsType[*net.OpError](err); ok {
		cause = op.Err // the wrapper repeats the address
	}
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("listen on %s: %w: is another server running there? %s", address, cause, other)
	case errors.Is(err, fs.ErrPermission) && lowPort(address):
		return fmt.Errorf("listen on %s: %w: use a port above 1023, or allow the process lower ones (CAP_NET_BIND_SERVICE); %s", address, cause, other)
	default:
		return fmt.Errorf("listen on %s: %w: %s", address, cause, other)
	}
}

// lowPort reports whether a process needs a permission to listen on the port of an address.
func lowPort(address string) bool {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	number, err := strconv.Atoi(port)
	return err == nil && number < 1024
}

// stop closes the listener, and waits for requests in flight until ctx ends. Then it cuts the remaining ones and returns an error.
func (s *httpServer) stop(ctx context.Context) error {
	if s.listener == nil {
		return nil
	}
	err := s.server.Shutdown(ctx)
	s.cut(errCut)
	if err != nil {
		err = errors.Join(fmt.Errorf("requests were cut off: %w", err), s.server.Close())
	}
	<-s.served
	return err
}

package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log" //nolint:depguard // http.Server takes no other logger
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/fanmail/fanmail/config"
)

// httpServer is an http.Server that listens before it has anything to serve.
type httpServer struct {
	address  string
	server   *http.Server
	handler  atomic.Pointer[http.Handler]
	draining atomic.Bool
	logger   zerolog.Logger
	tls      *tls.Config // nil for plain HTTP
	listener net.Listener
	served   chan struct{}
}

func newHTTPServer(cfg config.Config, logger zerolog.Logger) *httpServer {
	s := &httpServer{address: cfg.Addr, logger: logger, served: make(chan struct{})}
	s.server = &http.Server{
		Handler:           s,
		ReadHeaderTimeout: cfg.HTTP.ReadHeaderTimeout,
		ReadTimeout:       cfg.HTTP.ReadTimeout,
		WriteTimeout:      cfg.HTTP.WriteTimeout,
		IdleTimeout:       cfg.HTTP.IdleTimeout,
		MaxHeaderBytes:    int(cfg.HTTP.MaxHeader),
		ErrorLog:          log.New(complaints{logger.Sample(&zerolog.BurstSampler{Burst: 20, Period: 10 * time.Second})}, "", 0),
	}
	return s
}

// ServeHTTP implements http.Handler.
func (s *httpServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.draining.Load() {
		w.Header().Set("Connection", "close")
	}
	(*s.handler.Load()).ServeHTTP(w, r)
}

// drain ends each connection with the next answer on it, so that none is cut between two requests, when one may be on its way. What
// is served stays as it is.
func (s *httpServer) drain() { s.draining.Store(true) }

// complaints is where the server writes about connections that go wrong, such as those that do not speak TLS.
type complaints struct{ logger zerolog.Logger }

// Write logs one complaint.
func (c complaints) Write(p []byte) (int, error) {
	c.logger.Warn().Str("trouble", strings.TrimSpace(string(p))).Msg("trouble with a connection")
	return len(p), nil
}

// addr returns the address that is listened on, the port as it was assigned.
func (s *httpServer) addr() string { return s.listener.Addr().String() }

// serve lets a handler answer requests from now on.
func (s *httpServer) serve(handler http.Handler) { s.handler.Store(&handler) }

// start listens, and lets a handler answer requests until stop.
func (s *httpServer) start(ctx context.Context, handler http.Handler) error {
	s.serve(handler)
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", s.address)
	if err != nil {
		return fmt.Errorf("listen on %s: %w: is another server running there? --addr takes another address", s.address, err)
	}
	s.listener = listener
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

// stop closes the listener, and waits for requests in flight until ctx ends. Those that last longer are cut off.
func (s *httpServer) stop(ctx context.Context) error {
	if s.listener == nil {
		return nil
	}
	err := s.server.Shutdown(ctx)
	if err != nil {
		err = errors.Join(fmt.Errorf("requests were cut off: %w", err), s.server.Close())
	}
	<-s.served
	return err
}

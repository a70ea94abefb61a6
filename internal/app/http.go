package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/rs/zerolog"

	"github.com/fanmail/fanmail/config"
)

// httpServer is an http.Server as a startstop.Service.
type httpServer struct {
	address  string
	server   *http.Server
	logger   zerolog.Logger
	listener net.Listener
	served   chan struct{}
}

func newHTTPServer(cfg config.Config, handler http.Handler, logger zerolog.Logger) *httpServer {
	return &httpServer{
		address: cfg.Addr, logger: logger, served: make(chan struct{}),
		server: &http.Server{
			Handler:           handler,
			ReadHeaderTimeout: cfg.HTTP.ReadHeaderTimeout,
			ReadTimeout:       cfg.HTTP.ReadTimeout,
			IdleTimeout:       cfg.HTTP.IdleTimeout,
			MaxHeaderBytes:    int(cfg.HTTP.MaxHeader),
		},
	}
}

// addr returns the address that is listened on, the port as it was assigned.
func (s *httpServer) addr() string { return s.listener.Addr().String() }

// Start listens, and serves until Stop.
func (s *httpServer) Start(ctx context.Context) error {
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", s.address)
	if err != nil {
		return fmt.Errorf("listen on %s: %w: is another server running there? --addr takes another address", s.address, err)
	}
	s.listener = listener
	go func() {
		defer close(s.served)
		if err := s.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			s.logger.Error().Err(err).Msg("serving HTTP ended")
		}
	}()
	return nil
}

// Stop closes the listener, and waits for requests in flight until ctx ends. Those that last longer are cut off.
func (s *httpServer) Stop(ctx context.Context) error {
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

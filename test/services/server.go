package services

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// Server is a MongoDB server with its own data and port. Only URI and Ended are safe for concurrent use.
type Server struct {
	program   *MongoDB
	data, log string
	port      int
	process   *os.Process
	ended     chan struct{}
	err       error // of waiting; readable after ended is closed
}

// NewServer returns a server that is not started. It keeps its data and its log in an existing folder, and listens on a port of
// 127.0.0.1.
func (m *MongoDB) NewServer(folder string, port int) *Server {
	ended := make(chan struct{})
	close(ended)
	return &Server{
		program: m, port: port, ended: ended,
		data: filepath.Join(folder, "data"), log: filepath.Join(folder, "log"),
	}
}

// URI returns the connection string. Clients connect directly to this address and ignore the members of the replica set, so a proxy
// can forward the connections.
func (s *Server) URI() string { return "mongodb://" + s.addr() + "/?directConnection=true" }

func (s *Server) addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// Log returns the end of the server's log.
func (s *Server) Log() string { return tail(s.log) }

// Ended returns a channel that is closed while the server does not run.
func (s *Server) Ended() <-chan struct{} { return s.ended }

// Start starts the server on its data, and returns when it answers. If Start fails, no process is left.
func (s *Server) Start(ctx context.Context) error {
	if err := s.launch(); err != nil {
		return fmt.Errorf("starting %s: %w", s.program, err)
	}
	if err := s.awaitReady(ctx); err != nil {
		s.Kill()
		return fmt.Errorf("starting %s: %w; the end of its log:\n%s", s.program, err, s.Log())
	}
	return nil
}

// launch starts the process.
func (s *Server) launch() error {
	if err := os.MkdirAll(s.data, 0o755); err != nil {
		return err
	}
	log, err := os.OpenFile(s.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	cmd := s.program.command(s.data, s.port)
	cmd.Stdout, cmd.Stderr = log, log
	dieWithParent(cmd)
	started, ended := make(chan error), make(chan struct{})
	go func() {
		defer close(ended)
		// The kernel kills the process when the thread that started it ends. So this thread must live until the process has ended.
		runtime.LockOSThread()
		err := errors.Join(cmd.Start(), log.Close())
		started <- err
		if err == nil {
			s.err = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		<-ended
		return err
	}
	s.process, s.ended = cmd.Process, ended
	return nil
}

// awaitReady waits until the server answers.
func (s *Server) awaitReady(ctx context.Context) error {
	if err := s.awaitListening(ctx); err != nil {
		return err
	}
	client, err := mongo.Connect(options.Client().ApplyURI(s.URI()))
	if err != nil {
		return err
	}
	defer func() { _ = client.Disconnect(context.WithoutCancel(ctx)) }()
	return s.program.prepare(ctx, client, s.port)
}

func (s *Server) awaitListening(ctx context.Context) error {
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for {
		var dialer net.Dialer
		if conn, err := dialer.DialContext(ctx, "tcp", s.addr()); err == nil {
			return conn.Close()
		}
		select {
		case <-ticker.C:
		case <-s.ended:
			return fmt.Errorf("it ended at once: %w", s.err)
		case <-ctx.Done():
			return fmt.Errorf("it does not listen on %s: %w", s.addr(), context.Cause(ctx))
		}
	}
}

// Kill kills all processes of the server with SIGKILL, and returns when they have ended. It does nothing if the server does not
// run.
func (s *Server) Kill() {
	if s.process != nil {
		_ = s.process.Kill() // fails only if it has ended
	}
	<-s.ended
}

// Stop terminates the server and waits until it has ended. If ctx ends first, it kills the server.
func (s *Server) Stop(ctx context.Context) error {
	if s.process != nil {
		_ = s.process.Signal(syscall.SIGTERM) // fails only if it has ended
	}
	select {
	case <-s.ended:
		return nil
	case <-ctx.Done():
		s.Kill()
		return fmt.Errorf("stopping %s: %w", s.program, context.Cause(ctx))
	}
}

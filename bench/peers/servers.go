package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"
)

const (
	// startTime is how long a server may take to start, and stopTime how long to stop.
	startTime = time.Minute
	stopTime  = time.Minute
	// postgresPrograms is the folder of PostgreSQL's programs.
	postgresPrograms = "/usr/lib/postgresql/18/bin/"
	// inside is the folder of the data, as the servers see it.
	inside = "/srv"
)

// servers starts the servers of one run. Each has an empty folder under data.
type servers struct {
	options
	log     io.Writer
	running []*server
}

// server is a server that runs.
type server struct {
	name  string
	cmd   *exec.Cmd
	stop  os.Signal
	ended chan struct{}
	err   error // of waiting; readable after ended is closed
}

// as returns a command that runs a program as a user, in the folder where the servers are installed.
func (o options) as(user string, command ...string) []string {
	return append([]string{"chroot", o.root, "setpriv", "--reuid=" + user, "--regid=" + user, "--clear-groups"}, command...)
}

// folder makes an empty folder that belongs to a user, and returns its path as the servers see it.
func (s *servers) folder(ctx context.Context, user, name string) (string, error) {
	path := filepath.Join(inside, name)
	return path, s.run(ctx, "chroot", s.root, "install", "--directory", "--owner="+user, "--group="+user, "--mode=700", path)
}

// run runs a command to its end.
func (s *servers) run(ctx context.Context, command ...string) error {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = s.log, s.log
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", cmd, err)
	}
	return nil
}

// startRedis starts Redis with an append-only file. It never removes keys to save memory.
func (s *servers) startRedis(ctx context.Context, appendfsync string) error {
	folder, err := s.folder(ctx, "redis", "redis")
	if err != nil {
		return err
	}
	client := s.openRedis()
	defer func() { _ = client.Close() }()
	return s.start(ctx, "Redis", syscall.SIGTERM, func(ctx context.Context) error { return client.Ping(ctx).Err() },
		s.as("redis", "/usr/bin/redis-server", "--bind", "127.0.0.1", "--port", strconv.Itoa(s.redis), "--dir", folder, "--save", "",
			"--appendonly", "yes", "--appendfsync", appendfsync, "--maxmemory-policy", "noeviction"))
}

// startPostgres starts PostgreSQL on an empty database, with its defaults except for the number of connections.
func (s *servers) startPostgres(ctx context.Context) error {
	folder, err := s.folder(ctx, "postgres", "postgres")
	if err != nil {
		return err
	}
	if err := s.run(ctx, s.as("postgres", postgresPrograms+"initdb", "--pgdata="+folder, "--username=postgres", "--auth=trust",
		"--encoding=UTF8", "--locale=C.UTF-8", "--no-sync")...); err != nil {
		return err
	}
	pool, err := s.openPostgres(ctx, 1)
	if err != nil {
		return err
	}
	defer pool.Close()
	return s.start(ctx, "PostgreSQL", syscall.SIGINT, pool.Ping,
		s.as("postgres", postgresPrograms+"postgres", "-D", folder, "-p", strconv.Itoa(s.postgres), "-c", "listen_addresses=127.0.0.1",
			"-c", "unix_socket_directories=", "-c", "max_connections=200", "-c", "fsync=on", "-c", "synchronous_commit=on"))
}

// startFanmail starts a Fanmail server with the embedded store and bus.
func (s *servers) startFanmail(ctx context.Context) error {
	fanmail, err := s.openFanmail()
	if err != nil {
		return err
	}
	defer fanmail.Close()
	ready := func(ctx context.Context) error {
		_, err := fanmail.Settings(ctx)
		return err
	}
	return s.start(ctx, "Fanmail", syscall.SIGTERM, ready, []string{
		s.binary, "serve", "--addr", fmt.Sprintf("127.0.0.1:%d", s.fanmail), "--data", filepath.Join(s.data, "fanmail"), "--log-level", "warn",
	})
}

// start starts a server and waits until it is ready.
func (s *servers) start(ctx context.Context, name string, stop os.Signal, ready func(context.Context) error, command []string) error {
	running := &server{name: name, cmd: exec.Command(command[0], command[1:]...), stop: stop, ended: make(chan struct{})} //nolint:noctx // end ends it
	running.cmd.Stdout, running.cmd.Stderr = s.log, s.log
	running.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt from the terminal is for this process, which ends it
	if err := running.cmd.Start(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	go func() {
		defer close(running.ended)
		running.err = running.cmd.Wait()
	}()
	s.running = append(s.running, running)
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-running.ended:
			return fmt.Errorf("%s ended: %w", name, running.err)
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w", name, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// end stops the servers, the last one first, and removes their data.
func (s *servers) end() error {
	var failed error
	for _, running := range slices.Backward(s.running) {
		failed = errors.Join(failed, running.end())
	}
	s.running = nil
	return errors.Join(failed, empty(s.data))
}

// end stops a server. One that does not stop is killed.
func (s *server) end() error {
	_ = s.cmd.Process.Signal(s.stop) // fails only if it has ended
	select {
	case <-s.ended:
	case <-time.After(stopTime):
		_ = s.cmd.Process.Kill()
		<-s.ended
		return fmt.Errorf("%s did not stop", s.name)
	}
	if s.err != nil {
		return fmt.Errorf("%s: %w", s.name, s.err)
	}
	return nil
}

// empty removes what is in a folder.
func empty(folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if err := os.RemoveAll(filepath.Join(folder, entry.Name())); err != nil {
			return err
		}
	}
	return nil
}

// portsFree requires that no process listens on the ports.
func (o options) portsFree(ctx context.Context) error {
	for flag, port := range map[string]int{"--redis-port": o.redis, "--postgres-port": o.postgres, "--fanmail-port": o.fanmail} {
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			return fmt.Errorf("%s %d: %w; choose a free port", flag, port, err)
		}
		if err := listener.Close(); err != nil {
			return err
		}
	}
	return nil
}

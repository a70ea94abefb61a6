package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/centrifugal/centrifuge"

	"github.com/fanmail/fanmail/config"
	"github.com/fanmail/fanmail/internal/app/embedded"
	"github.com/fanmail/fanmail/internal/cli/program"
	"github.com/fanmail/fanmail/internal/startstop"
)

// streamServerCommand is the command that serves streams in a process of its own. Its argument is one of the names below.
const (
	streamServerCommand = "stream-server"

	fanmailServer    = "fanmail"
	centrifugeServer = "centrifuge"
	rawServer        = "raw"
)

// served is a server in a process of its own.
type served struct {
	kind  string
	cmd   *exec.Cmd
	stdin io.WriteCloser
	url   string
	freed chan struct{} // receives when the process has given back its free memory
	read  chan struct{} // closed when all that the process writes has been read

	complaints []string // lines that are no news; to be read when read is closed
}

// startServer starts a server, and waits until it answers.
func startServer(ctx context.Context, kind string, args ...string) (*served, error) {
	itself, err := os.Executable()
	if err != nil {
		return nil, err
	}
	//nolint:gosec // it is this program
	s := &served{kind: kind, cmd: exec.CommandContext(ctx, itself, append([]string{streamServerCommand, kind}, args...)...)}
	s.freed, s.read = make(chan struct{}, 1), make(chan struct{})
	out, err := s.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if s.stdin, err = s.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a server: %w", err)
	}
	ready := make(chan string, 1)
	go s.listen(out, ready)
	select {
	case s.url = <-ready:
		return s, nil
	case <-s.read:
		return nil, errors.Join(s.stop(), fmt.Errorf("%s did not start: %s", kind, strings.Join(s.complaints, "; ")))
	}
}

// listen reads the lines of the log: the first one with a URL says that the server answers.
func (s *served) listen(out io.Reader, ready chan<- string) {
	defer close(s.read)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var line struct{ Level, Message, URL string }
		switch err := json.Unmarshal(lines.Bytes(), &line); {
		case err != nil || line.Level != "info":
			s.complaints = append(s.complaints, s.kind+": "+lines.Text())
		case line.URL != "":
			ready <- line.URL
		case line.Message == memoryFreed:
			s.freed <- struct{}{}
		}
	}
}

// stop ends the process, and waits for it.
func (s *served) stop() error {
	_ = s.stdin.Close() // which ends it
	<-s.read
	if err := s.cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w: %s", s.kind, err, strings.Join(s.complaints, "; "))
	}
	return nil
}

// free makes the process collect its garbage and give back its free memory.
func (s *served) free() error {
	if _, err := io.WriteString(s.stdin, "free\n"); err != nil {
		return err
	}
	select {
	case <-s.freed:
		return nil
	case <-s.read:
		return fmt.Errorf("%s has ended", s.kind)
	}
}

// usage returns the resident memory of the process in bytes, and its processor time in steps of 10 ms. It can free memory before.
func (s *served) usage(free bool) (memory float64, used time.Duration, err error) {
	const user, system, tick = 11, 12, 10 * time.Millisecond // positions behind the name of the program
	if free {
		if err := s.free(); err != nil {
			return 0, 0, err
		}
	}
	dir := filepath.Join("/proc", strconv.Itoa(s.cmd.Process.Pid))
	status, err := os.ReadFile(filepath.Join(dir, "status")) //nolint:gosec // of a child
	stat, err2 := os.ReadFile(filepath.Join(dir, "stat"))    //nolint:gosec // as above
	_, resident, found := strings.Cut(string(status), "VmRSS:")
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if err := errors.Join(err, err2); err != nil || !found || len(fields) <= system {
		return 0, 0, fmt.Errorf("%s does not tell the memory and the processor time: %w", dir, err)
	}
	kib, err := strconv.ParseFloat(strings.Fields(resident)[0], 64)
	inUser, err2 := strconv.Atoi(fields[user])
	inSystem, err3 := strconv.Atoi(fields[system])
	return kib * 1024, time.Duration(inUser+inSystem) * tick, errors.Join(err, err2, err3)
}

// settle waits until the process uses less than a tenth of a processor, but at most half a minute.
func (s *served) settle(ctx context.Context) error {
	const window, most = 500 * time.Millisecond, 30 * time.Second
	for waited := time.Duration(0); waited < most && ctx.Err() == nil; waited += window {
		_, before, err := s.usage(false)
		if err != nil {
			return err
		}
		startstop.Pause(ctx, window)
		if _, after, err := s.usage(false); err != nil || after-before < window/10 {
			return err
		}
	}
	return ctx.Err()
}

// memoryFreed is what a server logs when it has freed its memory.
const memoryFreed = "memory is freed"

// ServeStreams is the process that startServer starts. It frees memory for each line that it reads, and ends when its input ends.
func ServeStreams(ctx context.Context, p program.Process, kind string, cfg config.Config, history int) error {
	ctx, stop := context.WithCancel(ctx)
	var reading sync.WaitGroup
	reading.Go(func() {
		defer stop()
		for lines := bufio.NewScanner(p.Stdin); lines.Scan(); {
			debug.FreeOSMemory()
			_, _ = fmt.Fprintf(p.Stderr, `{"level":"info","message":%q}`+"\n", memoryFreed)
		}
	})
	defer reading.Wait()
	switch kind {
	case fanmailServer:
		return program.Serve(ctx, p, cfg, embedded.Engines{})
	case centrifugeServer:
		return serveCentrifuge(ctx, p, history)
	default:
		return serveRaw(ctx, p)
	}
}

// pushed is a message for streams of other servers than Fanmail: one for each name in To, or for all.
type pushed struct {
	To   []string
	Data json.RawMessage
}

// serveCentrifuge serves centrifuge's own server-sent events at /events?user=, from a channel for each user. What is posted to /publish goes into the
// channels, each of which keeps so many messages.
func serveCentrifuge(ctx context.Context, p program.Process, history int) error {
	const pings, kept = 25 * time.Second, time.Hour
	node, err := centrifuge.New(centrifuge.Config{LogLevel: centrifuge.LogLevelError, LogHandler: func(e centrifuge.LogEntry) {
		_, _ = fmt.Fprintln(p.Stderr, e.Message, e.Fields)
	}})
	if err != nil {
		return err
	}
	node.OnConnecting(func(ctx context.Context, _ centrifuge.ConnectEvent) (centrifuge.ConnectReply, error) {
		who, _ := centrifuge.GetCredentials(ctx)
		return centrifuge.ConnectReply{Subscriptions: map[string]centrifuge.SubscribeOptions{who.UserID: {EnableRecovery: true}}}, nil
	})
	node.OnConnect(func(*centrifuge.Client) {})
	if err := node.Run(); err != nil {
		return err
	}
	stream := centrifuge.NewSSEHandler(node, centrifuge.SSEConfig{PingPongConfig: centrifuge.PingPongConfig{PingInterval: pings, PongTimeout: -1}})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /events", func(w http.ResponseWriter, r *http.Request) {
		who := &centrifuge.Credentials{UserID: r.URL.Query().Get("user")}
		stream.ServeHTTP(w, r.WithContext(centrifuge.SetCredentials(r.Context(), who)))
	})
	handlePublish(mux, func(m pushed) error {
		for _, to := range m.To {
			if _, err := node.Publish(to, m.Data, centrifuge.WithHistory(history, kept)); err != nil {
				return err
			}
		}
		return nil
	})
	err = serveHandler(ctx, p, mux)
	return errors.Join(err, node.Shutdown(context.WithoutCancel(ctx)))
}

// serveRaw keeps the connections of /events, and writes the data of each message to all of them, one after the other.
func serveRaw(ctx context.Context, p program.Process) error {
	var mu sync.Mutex
	var open []net.Conn
	mux := http.NewServeMux()
	mux.HandleFunc("GET /events", func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		open = append(open, conn)
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\ndata: {}\n\n\r\n") // the client notices if that fails
	})
	handlePublish(mux, func(m pushed) error {
		chunk := fmt.Appendf(nil, "%x\r\ndata: %s\n\n\r\n", len("data: \n\n")+len(m.Data), m.Data)
		mu.Lock()
		defer mu.Unlock()
		for _, conn := range open {
			if _, err := conn.Write(chunk); err != nil {
				return err
			}
		}
		return nil
	})
	err := serveHandler(ctx, p, mux)
	for _, conn := range open {
		_ = conn.Close() // the client has gone
	}
	return err
}

// handlePublish serves POST /publish, whose body is a list of messages.
func handlePublish(mux *http.ServeMux, publish func(pushed) error) {
	mux.HandleFunc("POST /publish", func(w http.ResponseWriter, r *http.Request) {
		var all []pushed
		err := json.NewDecoder(r.Body).Decode(&all)
		for _, m := range all {
			err = errors.Join(err, publish(m))
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
}

// serveHandler serves on a free port, and logs its URL, until ctx ends.
func serveHandler(ctx context.Context, p program.Process, handler http.Handler) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	stopped := context.AfterFunc(ctx, func() { _ = server.Close() }) // Serve tells
	defer stopped()
	_, err = fmt.Fprintf(p.Stderr, `{"level":"info","url":"http://%s"}`+"\n", listener.Addr())
	if err == nil {
		err = server.Serve(listener)
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

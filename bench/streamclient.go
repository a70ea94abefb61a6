package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http/httputil"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// sources is the number of addresses that streams come from, because an address has 28,000 ports, and a closed connection keeps its port for a
	// while.
	sources = 32
	// opening is the number of streams that are opened at the same time.
	opening = 16
	// lineBuffer is the memory for a line of a stream, if it fits.
	lineBuffer = 1 << 10
	// patience is how long a stream or a message may take. It is longer than stream.look_every, so a lost wake-up is late and not lost.
	patience = 30 * time.Second
)

// arrival is a message that a stream has brought.
type arrival struct {
	id string
	at time.Time
}

// watcher is an open stream.
type watcher struct {
	user    string
	conn    net.Conn
	first   []byte // the data of the first event
	closing atomic.Bool

	mu     sync.Mutex
	cursor []byte // the last id
	data   []byte // of the last event
	got    []arrival
}

// fleet are the streams of many users at one server. Each is a connection, a small buffer and a goroutine that blocks.
type fleet struct {
	server string
	// path returns what a stream asks for; it goes on after a cursor, unless that is empty.
	path     func(user, cursor string) string
	watchers []*watcher
	dialed   atomic.Int64
	// received counts messages, and broken the streams that ended although nobody closed them.
	received, broken atomic.Int64
	arrived          chan struct{} // receives after received has risen
	reading          sync.WaitGroup
}

func newFleet(server string, path func(user, cursor string) string) *fleet {
	return &fleet{server: strings.TrimPrefix(server, "http://"), path: path, arrived: make(chan struct{}, 1)}
}

// open adds the streams of users.
func (f *fleet) open(ctx context.Context, users []string) error {
	first := len(f.watchers)
	f.watchers = append(f.watchers, make([]*watcher, len(users))...)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(opening)
	for i, user := range users {
		group.Go(func() (err error) {
			f.watchers[first+i], err = f.dial(ctx, user, "")
			return err
		})
	}
	return group.Wait()
}

// dial opens a stream, and returns when its first event is there. Messages of the first event are not counted.
func (f *fleet) dial(ctx context.Context, user, cursor string) (_ *watcher, err error) {
	from := &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(2+f.dialed.Add(1)%sources))} //nolint:gosec // it is small
	conn, err := (&net.Dialer{LocalAddr: from, Timeout: patience}).DialContext(ctx, "tcp", f.server)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = conn.Close() // the first error matters
		}
	}()
	w := &watcher{user: user, conn: conn}
	request := "GET " + f.path(user, cursor) + " HTTP/1.1\r\nHost: " + f.server + "\r\nAccept: text/event-stream\r\n\r\n"
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil { //nolint:forbidigo // a deadline is of the system's clock
		return nil, err
	}
	if _, err := conn.Write([]byte(request)); err != nil {
		return nil, err
	}
	raw := bufio.NewReaderSize(conn, lineBuffer)
	status, err := raw.ReadString('\n')
	for line := status; err == nil && line != "\r\n"; {
		line, err = raw.ReadString('\n')
	}
	if err == nil && !strings.Contains(status, " 200 ") {
		err = fmt.Errorf("a stream was answered %q", strings.TrimSpace(status))
	}
	if err != nil {
		return nil, err
	}
	lines := bufio.NewReaderSize(httputil.NewChunkedReader(raw), lineBuffer)
	if err := w.next(lines); err != nil {
		return nil, fmt.Errorf("the first event of a stream: %w", err)
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return nil, err
	}
	w.first = bytes.Clone(w.data)
	f.reading.Go(func() { f.follow(w, lines) })
	return w, nil
}

// next reads up to the next data.
func (w *watcher) next(lines *bufio.Reader) error {
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return err
		}
		if id, is := bytes.CutPrefix(line, []byte("id: ")); is {
			w.mu.Lock()
			w.cursor = append(w.cursor[:0], bytes.TrimSpace(id)...)
			w.mu.Unlock()
		} else if data, is := bytes.CutPrefix(line, []byte("data: ")); is {
			w.mu.Lock()
			w.data = append(w.data[:0], bytes.TrimSpace(data)...)
			w.mu.Unlock()
			return nil
		}
	}
}

// follow notes the messages of a stream until it ends.
func (f *fleet) follow(w *watcher, lines *bufio.Reader) {
	for {
		if err := w.next(lines); err != nil {
			if !w.closing.Load() {
				f.broken.Add(1)
			}
			return
		}
		now := time.Now() //nolint:forbidigo // what is measured is time
		w.mu.Lock()
		before := len(w.got)
		for _, id := range idsOf(w.data) {
			w.got = append(w.got, arrival{id, now})
		}
		n := len(w.got) - before
		w.mu.Unlock()
		if f.received.Add(int64(n)); n > 0 {
			select {
			case f.arrived <- struct{}{}:
			default:
			}
		}
	}
}

// idsOf returns the ids of messages in data. Nothing else in it is an object that begins with an id, because nobody marks messages here.
func idsOf(data []byte) (ids []string) {
	for {
		_, rest, found := bytes.Cut(data, []byte(`{"id":"`))
		if !found {
			return ids
		}
		id, rest, _ := bytes.Cut(rest, []byte(`"`))
		ids, data = append(ids, string(id)), rest
	}
}

// wait waits until so many messages have been received since the last collect, and returns how many are missing after a time.
func (f *fleet) wait(ctx context.Context, want int) (missing int, err error) {
	enough := time.After(patience)
	for {
		if missing = want - int(f.received.Load()); missing <= 0 {
			return 0, nil
		}
		select {
		case <-f.arrived:
		case <-enough:
			return missing, nil
		case <-ctx.Done():
			return missing, ctx.Err()
		}
	}
}

// collect returns what has been received, and forgets it.
func (f *fleet) collect() (all []arrival) {
	for _, w := range f.watchers {
		w.mu.Lock()
		all = append(all, w.got...)
		w.got = nil
		w.mu.Unlock()
	}
	f.received.Store(0)
	return all
}

// reopen closes a stream, and opens it again after its cursor. It returns how long the first event took.
func (f *fleet) reopen(ctx context.Context, n int) (time.Duration, error) {
	old := f.watchers[n]
	old.close()
	old.mu.Lock()
	cursor := string(old.cursor)
	old.mu.Unlock()
	began := time.Now() //nolint:forbidigo // what is measured is time
	w, err := f.dial(ctx, old.user, cursor)
	if err != nil {
		return 0, err
	}
	f.watchers[n] = w
	return time.Since(began), nil
}

func (w *watcher) close() {
	w.closing.Store(true)
	_ = w.conn.Close() // whoever reads it learns it
}

// close ends all streams. It returns an error if one has ended before.
func (f *fleet) close() error {
	for _, w := range f.watchers {
		if w != nil {
			w.close()
		}
	}
	f.reading.Wait()
	f.watchers = nil
	if n := f.broken.Swap(0); n > 0 {
		return fmt.Errorf("%d streams ended early", n)
	}
	return nil
}

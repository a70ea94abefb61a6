//go:build long

package e2e_test

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/stretchr/testify/require"
)

// feed is an endless source of messages for the driver.
type feed struct {
	stop  func()
	ended chan struct{}
	lines atomic.Int64
	limit atomic.Int64 // of lines
	err   error
}

// pauseAfter lets the feed go on for so many messages. A store that is behind can catch up then, however slow it is.
func (f *feed) pauseAfter(messages int) { f.limit.Store(f.lines.Load() + int64(messages)) }

// feed makes the driver read messages from a pipe. It repeats the given messages at pace messages per second.
func (w *world) feed(ctx context.Context, messages []string, pace int) *feed {
	w.Helper()
	w.messages = filepath.Join(w.dir, "messages.pipe")
	require.NoError(w, syscall.Mkfifo(w.messages, 0o600))
	pipe, err := os.OpenFile(w.messages, os.O_RDWR, 0) // opening for reading and writing does not wait for a reader
	require.NoError(w, err)
	ctx, stop := context.WithCancel(ctx)
	f := &feed{stop: stop, ended: make(chan struct{})}
	f.limit.Store(math.MaxInt64)
	go func() {
		defer close(f.ended)
		ticker := time.NewTicker(time.Second / time.Duration(pace))
		defer ticker.Stop()
		for ctx.Err() == nil && f.err == nil {
			select {
			case <-ticker.C:
				n := f.lines.Load()
				if n >= f.limit.Load() {
					continue
				}
				if _, f.err = pipe.WriteString(messages[int(n)%len(messages)]); f.err == nil {
					f.lines.Add(1)
				}
			case <-ctx.Done():
			}
		}
	}()
	w.Cleanup(func() {
		stop()
		_ = pipe.Close() // ends a write without a reader
		<-f.ended
	})
	f.stop = func() {
		stop()
		<-f.ended
		require.NoError(w, f.err)
		require.NoError(w, pipe.Close())
	}
	return f
}

// end lets the driver finish, and returns the number of messages that it received.
func (f *feed) end() int {
	f.stop()
	return int(f.lines.Load())
}

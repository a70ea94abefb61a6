//go:build long

package e2e_test

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/stretchr/testify/require"
)

// feed is an endless source of messages for the driver.
type feed struct {
	stop  func()
	ended chan struct{}
	lines int
	err   error
}

// feed makes the driver read messages from a pipe. It repeats the given messages at pace messages per second.
func (w *world) feed(ctx context.Context, messages []string, pace int) *feed {
	w.Helper()
	w.messages = filepath.Join(w.dir, "messages.pipe")
	require.NoError(w, syscall.Mkfifo(w.messages, 0o600))
	pipe, err := os.OpenFile(w.messages, os.O_RDWR, 0) // opening for reading and writing does not wait for a reader
	require.NoError(w, err)
	ctx, stop := context.WithCancel(ctx)
	f := &feed{stop: stop, ended: make(chan struct{})}
	go func() {
		defer close(f.ended)
		ticker := time.NewTicker(time.Second / time.Duration(pace))
		defer ticker.Stop()
		for n := 0; ctx.Err() == nil && f.err == nil; n++ {
			line := messages[n%len(messages)]
			select {
			case <-ticker.C:
				if _, f.err = pipe.WriteString(line); f.err == nil {
					f.lines++
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
	return f.lines
}

// Package services finds, installs, starts and kills the servers that tests need and that are not part of the project.
//
// A server is a separate process with its own data. It ends when the process that started it ends, for whatever reason.
package services

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
)

// FreePort returns a port of 127.0.0.1 on which no process listens now. It is below the range of outgoing connections. Otherwise an
// outgoing connection could take the port while no server is running.
func FreePort(ctx context.Context) (int, error) {
	const first, last, tries = 10_000, 20_000, 100
	var config net.ListenConfig
	var err error
	for range tries {
		port := first + rand.IntN(last-first)
		var listener net.Listener
		if listener, err = config.Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			return port, listener.Close()
		}
	}
	return 0, fmt.Errorf("no free port: %w", err)
}

// tail returns the last 4 KiB of a file, or the error of reading it.
func tail(path string) string {
	const most = 4 << 10
	file, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = file.Close() }()
	if size, err := file.Seek(0, io.SeekEnd); err == nil {
		_, err = file.Seek(max(0, size-most), io.SeekStart)
		if err != nil {
			return err.Error()
		}
	}
	text, err := io.ReadAll(file)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(text))
}

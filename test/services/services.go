// Package services finds, installs, starts and kills the servers that tests need and that are no part of the project.
//
// A server is a process of its own with data of its own. It ends with whoever started it, however that ends.
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

// FreePort returns a port of 127.0.0.1 on which nobody listens at the moment. It is below those that the operating system gives to
// outgoing connections, one of which could otherwise take it while no server is running.
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

// tail returns the end of a file, or why there is none.
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

// Package services finds, installs, starts and kills the servers that tests need and that are no part of the project.
//
// A server is a process of its own with data of its own. It ends with whoever started it, however that ends.
package services

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
)

// FreePort returns a port of 127.0.0.1 on which nobody listens at the moment.
func FreePort(ctx context.Context) (int, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("no free port: %w", err)
	}
	return listener.Addr().(*net.TCPAddr).Port, listener.Close()
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

package cli

import (
	"context"
	"embed"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/fanmail/fanmail/internal/cli/program"
)

// livePage is a page with a form that publishes, and with inboxes that stay current.
//
//go:embed live
var livePage embed.FS

// servePage serves the page on a listener until ctx ends. The page calls the API at another address, as that of an application does.
func servePage(ctx context.Context, p program.Process, listener net.Listener, api string) error {
	mux := http.NewServeMux()
	mux.Handle("GET /live/", http.FileServerFS(livePage))
	mux.HandleFunc("GET /live/api", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, api) // a browser that is gone needs no answer
	})
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Security-Policy", "default-src 'self'; connect-src 'self' "+api)
			mux.ServeHTTP(w, r)
		}),
		ReadHeaderTimeout: 10 * time.Second,
	}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := printf(p.Stdout, "\nOpen http://%s/live/ to see inboxes follow what you publish. An interrupt ends it.\n", listener.Addr()); err != nil {
		return err
	}
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

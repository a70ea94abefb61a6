package testenv

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// front takes requests for all roles, and hands each to one of the processes that serve it, in turn. A process that does not listen is
// passed over. Where a process dies in the middle of an answer, so does the connection.
type front struct {
	publishers, rehydrators *pool
	server                  *http.Server
	ended                   chan struct{}
}

func startFront(ctx context.Context, t *testing.T, addr string, publishers, rehydrators []string) *front {
	t.Helper()
	f := &front{publishers: newPool(publishers), rehydrators: newPool(rehydrators), ended: make(chan struct{})}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	require.NoError(t, err)
	f.server = &http.Server{Handler: f}
	go func() {
		defer close(f.ended)
		_ = f.server.Serve(listener)
	}()
	t.Cleanup(f.stop)
	return f
}

// ServeHTTP implements http.Handler.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	pool := f.rehydrators
	for _, part := range []string{"/v1/messages", "/v1/following", "/followers", "/following"} {
		if strings.Contains(r.URL.Path, part) {
			pool = f.publishers
		}
	}
	pool.proxy.ServeHTTP(w, r)
}

// stop ends the front. It may be called more than once.
func (f *front) stop() {
	_ = f.server.Close()
	<-f.ended
	f.publishers.transport.CloseIdleConnections()
	f.rehydrators.transport.CloseIdleConnections()
}

// pool is the processes of a role.
type pool struct {
	addrs     []string
	turn      atomic.Uint64
	transport *http.Transport
	proxy     *httputil.ReverseProxy
}

func newPool(addrs []string) *pool {
	p := &pool{addrs: addrs, transport: &http.Transport{}}
	p.proxy = &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = "http", addrs[0] },
		Transport:     p,
		FlushInterval: -1,
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	return p
}

// RoundTrip implements http.RoundTripper.
func (p *pool) RoundTrip(r *http.Request) (answer *http.Response, err error) {
	first := p.turn.Add(1)
	for i := range uint64(len(p.addrs)) {
		r.URL.Host = p.addrs[(first+i)%uint64(len(p.addrs))]
		answer, err = p.transport.RoundTrip(r)
		if dialing, ok := errors.AsType[*net.OpError](err); !ok || dialing.Op != "dial" {
			return answer, err
		}
	}
	return nil, err
}

package testenv

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// front receives requests for all roles, and sends each to the next process of the role that serves it. With probes, it skips
// processes that are not ready, and does not try another process if the chosen one does not answer. Without probes, it skips
// processes that do not listen. If a process dies during an answer, the front cuts the client's connection.
type front struct {
	publishers, rehydrators *pool
	server                  *http.Server
	ended                   chan struct{}
}

func startFront(ctx context.Context, t *testing.T, addr string, publishers, rehydrators []string, probes *probes) *front {
	t.Helper()
	f := &front{publishers: newPool(publishers, probes), rehydrators: newPool(rehydrators, probes), ended: make(chan struct{})}
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
	for _, part := range []string{"/v1/messages", "/v1/following", "/followers", "/following", "/topics", "/subscriptions", "/identities"} {
		if strings.Contains(r.URL.Path, part) {
			pool = f.publishers
		}
	}
	pool.proxy.ServeHTTP(w, r)
}

// stop stops the front. It is idempotent.
func (f *front) stop() {
	_ = f.server.Close()
	<-f.ended
	f.publishers.transport.CloseIdleConnections()
	f.rehydrators.transport.CloseIdleConnections()
}

// pool has the processes of a role.
type pool struct {
	addrs     []string
	turn      atomic.Uint64
	transport *http.Transport
	proxy     *httputil.ReverseProxy
	probes    *probes

	mu     sync.Mutex
	failed []string
}

func newPool(addrs []string, probes *probes) *pool {
	p := &pool{addrs: addrs, transport: &http.Transport{}, probes: probes}
	p.proxy = &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = "http", addrs[0] },
		Transport:     p,
		FlushInterval: -1,
		ErrorHandler:  p.fail,
	}
	return p
}

// fail cuts the connection of a client whose request received no answer.
func (p *pool) fail(_ http.ResponseWriter, r *http.Request, err error) {
	p.mu.Lock()
	p.failed = append(p.failed, fmt.Sprintf("%s %s %s: %v", time.Now().Format(time.StampMilli), r.Method, r.URL.Path, err))
	p.mu.Unlock()
	panic(http.ErrAbortHandler)
}

// RoundTrip implements http.RoundTripper.
func (p *pool) RoundTrip(r *http.Request) (answer *http.Response, err error) {
	first := p.turn.Add(1)
	if p.probes != nil {
		return p.toReady(r, first)
	}
	for i := range uint64(len(p.addrs)) {
		r.URL.Host = p.addrs[(first+i)%uint64(len(p.addrs))]
		answer, err = p.transport.RoundTrip(r)
		if dialing, ok := errors.AsType[*net.OpError](err); !ok || dialing.Op != "dial" {
			return answer, err
		}
	}
	return nil, err
}

var errNobodyReady = errors.New("no process is ready")

// toReady sends a request to the next ready process.
func (p *pool) toReady(r *http.Request, first uint64) (*http.Response, error) {
	for i := range uint64(len(p.addrs)) {
		if r.URL.Host = p.addrs[(first+i)%uint64(len(p.addrs))]; p.probes.ready(r.URL.Host) {
			return p.transport.RoundTrip(r)
		}
	}
	return nil, errNobodyReady
}

package console

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/fanmail/fanmail/pkg/client"
)

// client returns a client of the API in this process, which asks as the visitor: from the same address, for the same host, with the same token.
func (s *server) client(visit *http.Request, token string) *client.Client {
	opts := client.Options{HTTP: &http.Client{Transport: inside{api: s.api, visit: visit}}, Tries: 1}
	if token != "" {
		opts.Token = func(context.Context) (string, error) { return token, nil }
	}
	c, err := client.New("http://console", opts)
	if err != nil {
		panic(err) // the URL is valid
	}
	return c
}

// inside is an http.RoundTripper that calls a handler.
type inside struct {
	api   http.Handler
	visit *http.Request
}

// RoundTrip implements http.RoundTripper.
func (i inside) RoundTrip(r *http.Request) (answer *http.Response, err error) {
	r = r.Clone(r.Context())
	r.Host, r.RemoteAddr, r.TLS, r.RequestURI = i.visit.Host, i.visit.RemoteAddr, i.visit.TLS, r.URL.RequestURI()
	if r.Body == nil {
		r.Body = http.NoBody
	}
	w := &recorder{header: make(http.Header), status: http.StatusOK}
	defer func() {
		cause := recover()
		if cause == nil {
			return
		}
		if aborted, ok := cause.(error); !ok || !errors.Is(aborted, http.ErrAbortHandler) {
			panic(cause)
		}
		err = fmt.Errorf("the answer broke off: %w", io.ErrUnexpectedEOF)
	}()
	i.api.ServeHTTP(w, r)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: w.status, Header: w.header, Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()), Request: r,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}, nil
}

// recorder is an http.ResponseWriter that keeps the answer.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (w *recorder) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *recorder) WriteHeader(status int) { w.status = status }

// Write implements http.ResponseWriter.
func (w *recorder) Write(p []byte) (int, error) { return w.body.Write(p) }

package client_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

// TestTokens uses a server with TLS that requires tokens and limits rates.
func TestTokens(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch n := asked.Add(1); {
		case r.Header.Get("Authorization") != fmt.Sprintf("Bearer token-%d", n):
			answerProblem(w, http.StatusUnauthorized, client.ProblemUnauthorized)
		case n == 1:
			answerProblem(w, http.StatusTooManyRequests, client.ProblemRateLimited)
		default:
			w.WriteHeader(http.StatusAccepted)
			_, _ = io.WriteString(w, receiptJSON)
		}
	}))
	t.Cleanup(server.Close)
	trusted := x509.NewCertPool()
	trusted.AddCert(server.Certificate())
	given := 0
	options := client.Options{
		TLS: &tls.Config{RootCAs: trusted}, Pause: time.Millisecond,
		Token: func(context.Context) (string, error) { given++; return fmt.Sprintf("token-%d", given), nil },
	}
	c, err := client.New(server.URL, options)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	_, err = c.Publish(t.Context(), message.Draft{From: "ann", To: []message.UserID{"bob"}, Body: "x"}, "")
	require.NoError(t, err, "what was too much was not taken, and is sent again, with another token")
	require.EqualValues(t, 2, asked.Load())

	options.Token = func(context.Context) (string, error) { return "", errors.New("it is locked away") }
	c, err = client.New(server.URL, options)
	require.NoError(t, err)
	_, err = c.User(t.Context(), "bob")
	require.ErrorContains(t, err, "it is locked away")
	require.EqualValues(t, 2, asked.Load())

	c, err = client.New(server.URL, client.Options{})
	require.NoError(t, err)
	_, err = c.User(t.Context(), "bob")
	require.ErrorContains(t, err, "is not trusted")
}

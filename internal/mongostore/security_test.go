package mongostore_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/mongostore"
	"github.com/fanmail/fanmail/test/testenv"
)

// TestSecure has the driver connect to a listener that speaks TLS and asks for a certificate: what is sent by then is encrypted.
func TestSecure(t *testing.T) {
	t.Parallel()
	ours, strangers := testenv.NewAuthority(t), testenv.NewAuthority(t)
	content, err := os.ReadFile(ours.File)
	require.NoError(t, err)
	clients := x509.NewCertPool()
	require.True(t, clients.AppendCertsFromPEM(content))
	certFile, keyFile := ours.Issue("mongodb")
	certificate, err := tls.LoadX509KeyPair(certFile, keyFile)
	require.NoError(t, err)
	clientCert, clientKey := ours.Issue("client")
	both := join(t, clientCert, clientKey)

	for name, test := range map[string]struct {
		caFile, certFile string
		accepted         bool
	}{
		"both":              {ours.File, both, true},
		"another authority": {strangers.File, both, false},
		"no certificate":    {ours.File, "", false},
	} {
		var listening net.ListenConfig
		listener, err := listening.Listen(t.Context(), "tcp", "127.0.0.1:0")
		require.NoError(t, err)
		handshakes := make(chan error, 1)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				server := tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{certificate}, ClientCAs: clients, ClientAuth: tls.RequireAndVerifyClientCert})
				err = server.HandshakeContext(t.Context())
				select {
				case handshakes <- err:
				default:
				}
				_ = conn.Close()
			}
		}()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		connected := make(chan error, 1)
		go func() {
			_, err := mongostore.Connect(ctx, mongostore.Options{
				URI: "mongodb://" + listener.Addr().String() + "/?directConnection=true", CAFile: test.caFile, CertFile: test.certFile,
				Timeout: 200 * time.Millisecond, Now: time.Now, Logger: zerolog.Nop(),
			})
			connected <- err
		}()
		require.Equal(t, test.accepted, <-handshakes == nil, name)
		cancel()
		require.ErrorIs(t, <-connected, context.Canceled, "it speaks no MongoDB")
		require.NoError(t, listener.Close())
		<-ended
	}
}

func TestSecureFilesThatAreRefused(t *testing.T) {
	t.Parallel()
	authority := testenv.NewAuthority(t)
	certFile, keyFile := authority.Issue("client")
	for want, opts := range map[string]mongostore.Options{
		"authorities: open nowhere":                          {CAFile: "nowhere"},
		"authorities: there is no certificate in " + keyFile: {CAFile: keyFile},
		"certificate: tls: found a certificate rather":       {CertFile: certFile},
	} {
		opts.URI, opts.Now = "mongodb://127.0.0.1:1", time.Now
		_, err := mongostore.Connect(t.Context(), opts)
		require.ErrorContains(t, err, want)
	}
}

func TestConnectTellsNoSecrets(t *testing.T) {
	t.Parallel()
	for _, uri := range []string{
		"mongodb://bob:hunter2@127.0.0.1:1/?authMechanism=hunter2", "mongodb://bob:hunter2%zz@a", "mongodb://bob:hunter2@a:b:c", "mongodb://bob:hun@ter2@a", "mongodb://bob:hunter2@a/?w=-1",
	} {
		_, err := mongostore.Connect(t.Context(), mongostore.Options{URI: uri, Now: time.Now})
		require.Error(t, err, uri)
		require.NotContains(t, err.Error(), "hunter2", uri)
	}
}

// join returns a file that holds what is in two.
func join(t *testing.T, first, second string) string {
	t.Helper()
	one, err := os.ReadFile(first)
	require.NoError(t, err)
	two, err := os.ReadFile(second)
	require.NoError(t, err)
	joined := first + "+key"
	require.NoError(t, os.WriteFile(joined, append(one, two...), 0o600))
	return joined
}

package app

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/config"
	"github.com/fanmail/fanmail/test/testenv"
)

// Clients whose authorities' file stays away are refused. The certificate of the server stays.
func TestAuthoritiesThatVanish(t *testing.T) {
	t.Parallel()
	now := time.Now()
	authority := testenv.NewAuthority(t)
	cfg := config.Default()
	cfg.TLS.CertFile, cfg.TLS.KeyFile = authority.Issue("server")
	cfg.TLS.ClientCAFile = authority.File
	a := New(cfg, Options{Now: func() time.Time { return now }})
	c, err := a.serverTLS()
	require.NoError(t, err)
	stale := func() []bool { return []bool{a.stale[0](), a.stale[1]()} }
	for _, file := range []string{cfg.TLS.CertFile, cfg.TLS.ClientCAFile} {
		require.NoError(t, os.Remove(file))
	}
	for _, pass := range []time.Duration{time.Minute, cfg.Auth.Grace - time.Second} {
		now = now.Add(pass)
		each, err := c.GetConfigForClient(nil)
		require.NoError(t, err)
		require.NotNil(t, each.ClientCAs)
		require.Equal(t, []bool{true, true}, stale())
	}
	now = now.Add(time.Minute)
	_, err = c.GetConfigForClient(nil)
	require.ErrorContains(t, err, "tls.client_ca_file is missing")
	certificate, err := c.GetCertificate(nil)
	require.NoError(t, err)
	require.NotNil(t, certificate.Leaf)
}

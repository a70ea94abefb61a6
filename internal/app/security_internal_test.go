package app

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/config"
	"github.com/fanmail/fanmail/internal/auth"
	"github.com/fanmail/fanmail/test/testenv"
)

// A token that is taken back is refused at its next use, also if it was not used for long.
func TestFilesAreWatched(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := config.Default()
		cfg.Auth.TokensFile = filepath.Join(t.TempDir(), "tokens.yaml")
		token := strings.Repeat("x", 32)
		put := func(list string) {
			require.NoError(t, os.WriteFile(cfg.Auth.TokensFile, []byte("tokens: "+list), 0o600))
		}
		put(fmt.Sprintf(`[{name: a, sha256: "%x", scopes: [admin]}]`, sha256.Sum256([]byte(token))))
		a := New(cfg, Options{})
		tokens, err := a.authenticator()
		require.NoError(t, err)
		intake, stop := context.WithCancel(t.Context())
		defer stop()
		go a.watchFiles(intake, intake)
		_, err = tokens.Authenticate(token)
		require.NoError(t, err)
		put("[]")
		time.Sleep(10 * time.Second)
		_, err = tokens.Authenticate(token)
		require.ErrorIs(t, err, auth.ErrUnknown)
	})
}

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

package app

import (
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/config"
	"github.com/fanmail/fanmail/test/testenv"
)

// What expires is known to the second, from the files that are in force; where there are none, nothing expires.
func TestExpiry(t *testing.T) {
	t.Parallel()
	measured := func(a *App) string {
		a.measureExpiry()
		families, err := a.opts.Metrics.Gather()
		require.NoError(t, err)
		var b strings.Builder
		for _, family := range families {
			if strings.HasSuffix(family.GetName(), "_expires_seconds") {
				fmt.Fprintf(&b, "%s %.0f\n", family.GetName(), family.GetMetric()[0].GetGauge().GetValue())
			}
		}
		return b.String()
	}
	require.Equal(t, "fanmail_certificate_expires_seconds 0\nfanmail_token_expires_seconds 0\n", measured(New(config.Default(), Options{})))

	cfg := config.Default()
	cfg.TLS.CertFile, cfg.TLS.KeyFile = testenv.NewAuthority(t).Issue("server")
	pair, err := tls.LoadX509KeyPair(cfg.TLS.CertFile, cfg.TLS.KeyFile)
	require.NoError(t, err)
	cfg.Auth.TokensFile = filepath.Join(t.TempDir(), "tokens.yaml")
	require.NoError(t, os.WriteFile(cfg.Auth.TokensFile, []byte(`tokens: [{name: a, sha256: "`+strings.Repeat("0", 64)+`", scopes: [admin], expires: 2126-01-02T03:04:05Z}]`), 0o600))
	a := New(cfg, Options{})
	a.auth, err = a.authenticator()
	require.NoError(t, err)
	a.server.tls, err = a.serverTLS()
	require.NoError(t, err)
	require.Equal(t, fmt.Sprintf("fanmail_certificate_expires_seconds %d\nfanmail_token_expires_seconds %d\n",
		pair.Leaf.NotAfter.Unix(), time.Date(2126, 1, 2, 3, 4, 5, 0, time.UTC).Unix()), measured(a))
}

package app_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/config"
	"github.com/fanmail/fanmail/internal/app"
)

func TestLocalWithoutAuth(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(*config.Config)
		want   string
	}{
		"nothing configured":      {func(*config.Config) {}, "127.0.0.1:9000"},
		"tokens":                  {func(c *config.Config) { c.Auth.TokensFile = "tokens.yaml" }, ":9000"},
		"certificates of clients": {func(c *config.Config) { c.TLS.ClientCAFile = "ca.pem" }, ":9000"},
		"insecure":                {func(c *config.Config) { c.Insecure = true }, ":9000"},
		"a loopback address":      {func(c *config.Config) { c.Addr = "[::1]:9000" }, "[::1]:9000"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := config.Default()
			cfg.Addr = ":9000"
			test.change(&cfg)
			want := cfg
			want.Addr = test.want
			got := app.LocalWithoutAuth(cfg)
			require.Equal(t, want, got)
			require.NoError(t, app.CheckOpen(got))
		})
	}
}

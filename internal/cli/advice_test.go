package cli_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/config"
	"github.com/fanmail/fanmail/internal/app"
	"github.com/fanmail/fanmail/internal/app/embedded"
	"github.com/fanmail/fanmail/internal/cli/program"
)

// bens is the token of a user who reads their own inbox.
const bens = "fanmail-token-of-ben-0123456789abcdefghijklmnop"

// An error about a token says where the token was taken from, or how to give one.
func TestErrorsNameTheToken(t *testing.T) {
	t.Parallel()
	hash := sha256.Sum256([]byte(bens))
	url := serveAs(t, nil, func(cfg *config.Config) {
		cfg.Auth.TokensFile = file(t, "tokens.yaml", "tokens:\n  - {name: ben, sha256: "+hex.EncodeToString(hash[:])+", scopes: [read], user: ben}\n")
	})
	const unknown = "fanmail-token-of-nobody-0123456789abcdefghijkl"
	good, bad := file(t, "good", bens), file(t, "bad", unknown)
	for name, test := range map[string]struct {
		args string
		env  []string
		want string
	}{
		"no token": {
			args: "inbox ben", want: "(401 Unauthorized); --token-file or FANMAIL_TOKEN_FILE names the file with the token to send\n",
		},
		"unknown by flag": {
			args: "inbox ben --token-file " + bad, env: []string{"FANMAIL_TOKEN_FILE=" + good}, want: "(401 Unauthorized); the token is that in --token-file\n",
		},
		"unknown by variable": {
			args: "inbox ben", env: []string{"FANMAIL_TOKEN_FILE=" + bad}, want: "(401 Unauthorized); the token is that in FANMAIL_TOKEN_FILE, and --token-file names another file\n",
		},
		"unknown token in a variable": {
			args: "inbox ben", env: []string{"FANMAIL_TOKEN=" + unknown}, want: "(401 Unauthorized); the token is that in FANMAIL_TOKEN, and --token-file names a file with another one\n",
		},
		"of another user": {
			args: "inbox ann --token-file " + good, want: "(403 Forbidden); the token is that in --token-file\n",
		},
		"not for this": {
			args: "publish --from ben --to ann --body x", env: []string{"FANMAIL_TOKEN=" + bens}, want: "(403 Forbidden); the token is that in FANMAIL_TOKEN, and",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := run{args: append(strings.Fields(test.args), "--server", url), env: test.env}.do(t.Context(), t)
			require.Equal(t, program.ExitFailed, got.code)
			require.Contains(t, got.stderr, test.want)
			requireOneLine(t, got.stderr)
		})
	}
	require.Empty(t, run{args: []string{"inbox", "ben", "--as-user", "--token-file", good, "--server", url}}.do(t.Context(), t).stderr)
}

// serveRole starts an app with one role and returns its URL.
func serveRole(t *testing.T, role app.Role) string {
	t.Helper()
	cfg := config.Default()
	cfg.Addr, cfg.Data = "127.0.0.1:0", t.TempDir()
	server := app.New(cfg, app.Options{Roles: []app.Role{role}, Embedded: embedded.Engines{}, Logger: zerolog.Nop()})
	require.NoError(t, server.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, server.Stop(context.WithoutCancel(t.Context()))) })
	return server.URL()
}

// A process that lacks the role of a command names the role, and the command names the flag for the address of that role.
func TestErrorsNameTheRole(t *testing.T) {
	t.Parallel()
	publisher, rehydrator := serveRole(t, app.Publisher), serveRole(t, app.Rehydrator)
	for name, test := range map[string]struct{ args, url, want string }{
		"inbox":   {"inbox ben", publisher, "the rehydrator does (404 Not Found); --rehydrator or FANMAIL_REHYDRATOR gives its address\n"},
		"publish": {"publish --from ann --to ben --body x", rehydrator, "the publisher does (404 Not Found); --publisher or FANMAIL_PUBLISHER gives its address\n"},
	} {
		got := run{args: append(strings.Fields(test.args), "--server", test.url)}.do(t.Context(), t)
		require.Equal(t, program.ExitFailed, got.code, name)
		require.Contains(t, got.stderr, test.want, name)
		requireOneLine(t, got.stderr)
	}
	got := run{args: strings.Fields("status 019b7ca9-8c88-7000-8000-000000000000 --server " + publisher)}.do(t.Context(), t)
	require.Contains(t, got.stderr, "there is no message with this id: check the id (404 Not Found)\n", "no address is wrong")
}

// A server whose certificate is not trusted is told from one that does not answer. The error names what gave the address.
func TestErrorsNameTheAddress(t *testing.T) {
	t.Parallel()
	other := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(other.Close)
	const elsewhere = "http://127.0.0.1:2"
	for name, test := range map[string]struct {
		run
		want []string
	}{
		"a certificate": {
			run{args: []string{"--server", other.URL}},
			[]string{"the certificate of " + other.URL + " is not trusted", "; --ca-file or FANMAIL_CA_FILE names the file with the authorities to trust\n"},
		},
		"a flag of the role": {
			run{args: []string{"--rehydrator", nowhere}, env: []string{"FANMAIL_SERVER=" + elsewhere}},
			[]string{nowhere + ": ", "; --rehydrator or FANMAIL_REHYDRATOR gives another address\n"},
		},
		"a variable of the role": {
			run{env: []string{"FANMAIL_REHYDRATOR=" + nowhere, "FANMAIL_SERVER=" + elsewhere}},
			[]string{nowhere + ": ", "; --rehydrator or FANMAIL_REHYDRATOR gives another address\n"},
		},
		"two flags": {
			run{args: []string{"--rehydrator", nowhere, "--server", elsewhere}},
			[]string{nowhere + ": ", "; --rehydrator or FANMAIL_REHYDRATOR gives another address\n"},
		},
		"a flag before a variable": {
			run{args: []string{"--server", nowhere}, env: []string{"FANMAIL_REHYDRATOR=" + elsewhere}},
			[]string{"no answer from " + nowhere, "; --server or FANMAIL_SERVER gives another address\n"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.args = append([]string{"inbox", "ben"}, test.args...)
			got := test.do(t.Context(), t)
			require.Equal(t, program.ExitFailed, got.code)
			for _, want := range test.want {
				require.Contains(t, got.stderr, want)
			}
		})
	}
}

package natsbus_test

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/internal/natsbus"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/test/testenv"
)

// guarded starts a NATS server that accepts only clients with a certificate of the authority and credentials of its operator. It returns
// the URL and a file with such credentials.
func guarded(t *testing.T, authority *testenv.Authority) (url, credentials string) {
	t.Helper()
	certFile, keyFile := authority.Issue("nats")
	certificate, err := tls.LoadX509KeyPair(certFile, keyFile)
	require.NoError(t, err)
	content, err := os.ReadFile(authority.File)
	require.NoError(t, err)
	clients := x509.NewCertPool()
	require.True(t, clients.AppendCertsFromPEM(content))

	operator, err := nkeys.CreateOperator()
	require.NoError(t, err)
	resolver := &server.MemAccResolver{}
	account, _ := addAccount(t, resolver, operator, -1)
	_, system := addAccount(t, resolver, operator, 0)
	ns, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, JetStream: true, StoreDir: t.TempDir(), MaxPayload: 8 << 20,
		TrustedKeys: []string{public(t, operator)}, AccountResolver: resolver, SystemAccount: system,
		TLSConfig:  &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{certificate}, ClientCAs: clients, ClientAuth: tls.RequireAndVerifyClientCert},
		TLSTimeout: patience.Seconds(), TLS: true, TLSVerify: true,
	})
	require.NoError(t, err)
	ns.Start()
	t.Cleanup(func() {
		ns.Shutdown()
		ns.WaitForShutdown()
	})
	require.True(t, ns.ReadyForConnections(patience))
	return ns.ClientURL(), credentialsOf(t, account)
}

func public(t *testing.T, pair nkeys.KeyPair) string {
	t.Helper()
	key, err := pair.PublicKey()
	require.NoError(t, err)
	return key
}

// addAccount adds an account with the given room for streams in bytes; -1 means no limit.
func addAccount(t *testing.T, resolver *server.MemAccResolver, operator nkeys.KeyPair, room int64) (account nkeys.KeyPair, key string) {
	t.Helper()
	account, err := nkeys.CreateAccount()
	require.NoError(t, err)
	key = public(t, account)
	claims := jwt.NewAccountClaims(key)
	if room != 0 {
		claims.Limits.JetStreamLimits = jwt.JetStreamLimits{DiskStorage: room, MemoryStorage: room, Streams: -1, Consumer: -1}
	}
	text, err := claims.Encode(operator)
	require.NoError(t, err)
	require.NoError(t, resolver.Store(key, text))
	return account, key
}

// credentialsOf returns the file of a user's credentials.
func credentialsOf(t *testing.T, account nkeys.KeyPair) string {
	t.Helper()
	user, err := nkeys.CreateUser()
	require.NoError(t, err)
	text, err := jwt.NewUserClaims(public(t, user)).Encode(account)
	require.NoError(t, err)
	seed, err := user.Seed()
	require.NoError(t, err)
	config, err := jwt.FormatUserConfig(text, seed)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "user.creds")
	require.NoError(t, os.WriteFile(path, config, 0o600))
	return path
}

// TestConnectSecurely connects to a server that requires a certificate and credentials: with both, and with each file missing or of
// another operator.
func TestConnectSecurely(t *testing.T) {
	t.Parallel()
	ours, strangers := testenv.NewAuthority(t), testenv.NewAuthority(t)
	url, credentials := guarded(t, ours)
	certFile, keyFile := ours.Issue("bus")
	strangeCert, strangeKey := strangers.Issue("stranger")
	stranger, err := nkeys.CreateAccount()
	require.NoError(t, err)
	good := natsbus.Options{URL: url, Partitions: 2, CredentialsFile: credentials, CAFile: ours.File, CertFile: certFile, KeyFile: keyFile, Lease: time.Second}

	b := connect(t, good)
	require.NoError(t, b.Healthy(patient(t)))
	require.NoError(t, b.EmitPublished(patient(t), []event.Published{published(1)}, false))
	got, err := b.FetchPublished(patient(t), 1)
	require.NoError(t, err)
	require.Len(t, got, 1)

	// The client may or may not read the server's alert ("certificate required"): both results are right.
	const refused = "the server ended the TLS connection; it may require a client certificate or refuse the given one"
	for name, test := range map[string]struct {
		change func(*natsbus.Options)
		// passes reports whether the error may go away, for example because the server learns the credentials later.
		passes bool
		want   string
	}{
		"no credentials":                           {func(o *natsbus.Options) { o.CredentialsFile = "" }, true, "Authorization Violation"},
		"another's credentials":                    {func(o *natsbus.Options) { o.CredentialsFile = credentialsOf(t, stranger) }, true, "Authorization Violation"},
		"no certificate":                           {func(o *natsbus.Options) { o.CertFile, o.KeyFile = "", "" }, true, refused},
		"another's certificate":                    {func(o *natsbus.Options) { o.CertFile, o.KeyFile = strangeCert, strangeKey }, true, refused},
		"another authority":                        {func(o *natsbus.Options) { o.CAFile = strangers.File }, true, "certificate signed by unknown authority"},
		"files that do not exist":                  {func(o *natsbus.Options) { o.CredentialsFile = "nowhere" }, false, "credentials: open nowhere"},
		"a CA file without a certificate":          {func(o *natsbus.Options) { o.CAFile = keyFile }, false, "there is no certificate in"},
		"a certificate file without a certificate": {func(o *natsbus.Options) { o.CertFile = keyFile }, false, "certificate: tls: failed to find"},
	} {
		opts := good
		test.change(&opts)
		_, err := natsbus.Connect(patient(t), filled(opts))
		require.ErrorContains(t, err, test.want, name)
		require.Equal(t, test.want == refused, strings.Contains(err.Error(), refused), name)
		if test.passes {
			require.ErrorIs(t, err, bus.ErrUnavailable, name)
		} else {
			require.NotErrorIs(t, err, bus.ErrUnavailable, name)
		}
	}
}

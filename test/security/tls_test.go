//go:build long

package security_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"maps"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/test/testenv"
)

// TestTLS runs the server with a certificate, and has commands reach it, with client certificates and a token. Then the server's
// certificate is exchanged.
func TestTLS(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	ours, strangers := testenv.NewAuthority(t), testenv.NewAuthority(t)
	certFile, keyFile := ours.Issue("server")
	i := newIssuer(t)
	settings := i.settings(nil)
	settings["tls.cert_file"], settings["tls.key_file"], settings["tls.client_ca_file"] = certFile, keyFile, ours.File
	site := testenv.NewSite(t, settings)
	url := strings.Replace(site.URL(), "http:", "https:", 1)
	process := testenv.Exec(ctx, t, with(settings, "addr", site.Addr, "data", site.Data, "log.format", "json"), fanmail, "serve")
	testenv.Eventually(ctx, t, "the server is ready", func() bool { return strings.Contains(process.Stderr(), "fanmail is ready") })
	require.Contains(t, process.Stderr(), `"url":"`+url+`"`)

	clientCert, clientKey := ours.Issue("client")
	strangeCert, strangeKey := strangers.Issue("stranger")
	tokenFile := i.write("bob.token", i.token("bob", "read", time.Hour)+"\n")
	for name, test := range map[string]struct {
		settings map[string]string
		fails    string
	}{
		"all of it":              {map[string]string{"ca.file": ours.File, "cert.file": clientCert, "key.file": clientKey, "token.file": tokenFile}, ""},
		"no token":               {map[string]string{"ca.file": ours.File, "cert.file": clientCert, "key.file": clientKey}, "carries no token"},
		"no certificate":         {map[string]string{"ca.file": ours.File, "token.file": tokenFile}, "no answer from"},
		"another's certificate":  {map[string]string{"ca.file": ours.File, "cert.file": strangeCert, "key.file": strangeKey, "token.file": tokenFile}, "no answer from"},
		"another authority":      {map[string]string{"ca.file": strangers.File, "cert.file": clientCert, "key.file": clientKey, "token.file": tokenFile}, "is not trusted"},
		"a certificate, no key":  {map[string]string{"ca.file": ours.File, "cert.file": clientCert, "token.file": tokenFile}, "go together"},
		"no authority's file":    {map[string]string{"ca.file": tokenFile, "token.file": tokenFile}, "there is no certificate in"},
		"a token file of no use": {map[string]string{"ca.file": ours.File, "cert.file": clientCert, "key.file": clientKey, "token.file": ours.File}, "one token and nothing else"},
	} {
		deadline, cancel := context.WithTimeout(ctx, time.Minute)
		command := testenv.Exec(deadline, t, test.settings, fanmail, "login", "bob", "--server", url)
		code := command.Code(deadline)
		cancel()
		if test.fails == "" {
			require.Zero(t, code, "%s: %s", name, command.Stderr())
			continue
		}
		require.NotZero(t, code, name)
		require.Contains(t, command.Stderr(), test.fails, name)
	}

	// A client may find the connection broken before it reads why: the server's log tells, a moment later.
	for _, reason := range []string{"client didn't provide a certificate", "certificate signed by unknown authority"} {
		testenv.Eventually(ctx, t, "the log tells: "+reason, func() bool { return strings.Contains(process.Stderr(), reason) })
	}

	authorities := x509.NewCertPool()
	content, err := os.ReadFile(ours.File)
	require.NoError(t, err)
	require.True(t, authorities.AppendCertsFromPEM(content))
	certificate, err := tls.LoadX509KeyPair(clientCert, clientKey)
	require.NoError(t, err)
	dialer := tls.Dialer{Config: &tls.Config{RootCAs: authorities, Certificates: []tls.Certificate{certificate}, NextProtos: []string{"h2"}}}
	serial := func() string {
		conn, err := dialer.DialContext(ctx, "tcp", site.Addr)
		require.NoError(t, err)
		defer conn.Close() //nolint:errcheck // it was read from only
		state := conn.(*tls.Conn).ConnectionState()
		require.Equal(t, "h2", state.NegotiatedProtocol)
		return state.PeerCertificates[0].SerialNumber.String()
	}
	before := serial()
	ours.Issue("server")
	testenv.Eventually(ctx, t, "the new certificate is shown", func() bool { return serial() != before })
	old := tls.Dialer{Config: &tls.Config{RootCAs: authorities, Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}}
	_, err = old.DialContext(ctx, "tcp", site.Addr)
	require.ErrorContains(t, err, "protocol version")

	plain, err := http.NewRequestWithContext(ctx, http.MethodGet, site.URL()+"/healthz", http.NoBody)
	require.NoError(t, err)
	answer, err := http.DefaultClient.Do(plain)
	require.NoError(t, err)
	require.Equal(t, http.StatusBadRequest, answer.StatusCode, "plain HTTP is not answered")
	require.NoError(t, answer.Body.Close())
	http.DefaultClient.CloseIdleConnections()
	process.Terminate()
	require.Zero(t, process.Code(ctx))
	require.NotContains(t, process.Stderr(), i.token("bob", "read", time.Hour)[:60])
}

// with returns settings with more of them, given as key, value.
func with(settings map[string]string, more ...string) map[string]string {
	all := make(map[string]string, len(settings)+len(more)/2)
	maps.Copy(all, settings)
	for n := 0; n < len(more); n += 2 {
		all[more[n]] = more[n+1]
	}
	return all
}

// TestNoSecretIsShown looks for the secrets of a configuration in all that a process prints.
func TestNoSecretIsShown(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	const secret = "hunter2"
	file := newIssuer(t).write("uri", "mongodb://bob:"+secret+"@127.0.0.1:1/?serverSelectionTimeoutMS=50&authSource=admin\n")
	badFile := newIssuer(t).write("uri", "bob:"+secret+"@127.0.0.1:1\n")
	for name, test := range map[string]struct {
		settings map[string]string
		args     []string
		want     string
	}{
		"config":          {map[string]string{"store": "mongodb", "mongodb.uri": "mongodb://bob:" + secret + "@a", "nats.url": "nats://" + secret + "@a"}, []string{"config"}, "*****"},
		"config, as JSON": {map[string]string{"mongodb.uri": "mongodb://bob:" + secret + "@a/?tlsCertificateKeyFilePassword=" + secret}, []string{"config", "--json"}, "*****"},
		"a malformed URI": {map[string]string{"store": "mongodb", "mongodb.uri": "bob:" + secret + "@a"}, []string{"serve"}, "must begin with"},
		"a bad escape":    {map[string]string{"store": "mongodb", "mongodb.uri": "mongodb://bob:" + secret + "%zz@a"}, []string{"serve"}, "begins no escape"},
		"a bad option":    {map[string]string{"store": "mongodb", "mongodb.uri": "mongodb://bob:" + secret + "@a/?authMechanism=x"}, []string{"serve"}, "auth mechanism"},
		"a bad nats.url":  {map[string]string{"nats.url": "nats://bob:" + secret + "@a:port"}, []string{"serve"}, "nats.url is not an address"},
		"a bad file":      {map[string]string{"store": "mongodb", "mongodb.uri_file": badFile}, []string{"serve"}, "must begin with"},
		"two URIs":        {map[string]string{"store": "mongodb", "mongodb.uri": "mongodb://bob:" + secret + "@a", "mongodb.uri_file": file}, []string{"serve"}, "leave one of them empty"},
	} {
		test.settings = with(test.settings, "addr", "127.0.0.1:0", "data", t.TempDir())
		command := testenv.Exec(ctx, t, test.settings, fanmail, test.args...)
		command.Code(ctx)
		shown := command.Stdout() + command.Stderr()
		require.NotContains(t, shown, secret, name)
		require.Contains(t, shown, test.want, name)
	}
	waiting := testenv.Exec(ctx, t, map[string]string{
		"store": "mongodb", "mongodb.uri_file": file, "addr": "127.0.0.1:0", "data": t.TempDir(), "log.format": "json", "log.level": "debug",
	}, fanmail, "serve")
	testenv.Eventually(ctx, t, "the server has tried", func() bool { return strings.Contains(waiting.Stderr(), "does not answer") })
	waiting.Terminate()
	waiting.Code(ctx)
	require.NotContains(t, waiting.Stdout()+waiting.Stderr(), secret)
}

package cli

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fanmail/fanmail/pkg/client"
)

// Environment variables that tell a server who a command is of, where flags do not. The token itself is given by no flag:
// whoever lists the processes of a host would see it.
const (
	tokenEnv     = "FANMAIL_TOKEN"      //nolint:gosec // the name of a variable
	tokenFileEnv = "FANMAIL_TOKEN_FILE" //nolint:gosec // the name of a variable
	caFileEnv    = "FANMAIL_CA_FILE"
	certFileEnv  = "FANMAIL_CERT_FILE"
	keyFileEnv   = "FANMAIL_KEY_FILE"
)

func credentialEnvs() []string {
	return []string{tokenEnv, tokenFileEnv, caFileEnv, certFileEnv, keyFileEnv}
}

// credentials are what a command shows a server, and what it trusts.
type credentials struct {
	tokenFile, caFile, certFile, keyFile string
}

func (c *credentials) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&c.tokenFile, "token-file", "", "file with the token to send (default $"+tokenFileEnv+", or the token in $"+tokenEnv+")")
	flags.StringVar(&c.caFile, "ca-file", "", "file with the authorities to trust, PEM (default $"+caFileEnv+", or the system's)")
	flags.StringVar(&c.certFile, "cert-file", "", "file with the certificate to show, PEM (default $"+certFileEnv+")")
	flags.StringVar(&c.keyFile, "key-file", "", "file with its private key, PEM (default $"+keyFileEnv+")")
}

// options returns the options of a client that shows the credentials.
func (c *credentials) options(p Process) (client.Options, error) {
	transport, err := c.transport(p)
	if err != nil {
		return client.Options{}, &usageError{err}
	}
	options := client.Options{TLS: transport}
	switch path, token := cmp.Or(c.tokenFile, p.getenv(tokenFileEnv)), p.getenv(tokenEnv); {
	case path != "":
		// It is read for each request: somebody may exchange it while a long command runs.
		options.Token = func(context.Context) (string, error) { return readToken(path) }
		if _, err := readToken(path); err != nil {
			return options, &usageError{err}
		}
	case token != "":
		options.Token = func(context.Context) (string, error) { return token, nil }
	}
	return options, nil
}

func readToken(path string) (string, error) {
	content, err := os.ReadFile(path) //nolint:gosec // whoever runs the command names the file
	if err != nil {
		return "", fmt.Errorf("token file: %w", err)
	}
	token := strings.TrimSpace(string(content))
	if token == "" || strings.ContainsAny(token, " \t\r\n") {
		return "", fmt.Errorf("token file %s: it has to hold one token and nothing else", path)
	}
	return token, nil
}

// transport returns how to connect by TLS, or nil for the usual way.
func (c *credentials) transport(p Process) (*tls.Config, error) {
	caFile := cmp.Or(c.caFile, p.getenv(caFileEnv))
	certFile, keyFile := cmp.Or(c.certFile, p.getenv(certFileEnv)), cmp.Or(c.keyFile, p.getenv(keyFileEnv))
	if caFile == "" && certFile == "" && keyFile == "" {
		return nil, nil //nolint:nilnil // nothing is configured, and nothing is wrong with that
	}
	t := &tls.Config{MinVersion: tls.VersionTLS12}
	if caFile != "" {
		authorities, err := os.ReadFile(caFile) //nolint:gosec // whoever runs the command names the file
		if err != nil {
			return nil, fmt.Errorf("--ca-file: %w", err)
		}
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(authorities) {
			return nil, fmt.Errorf("--ca-file: there is no certificate in %s", caFile)
		}
	}
	if certFile == "" && keyFile == "" {
		return t, nil
	}
	if certFile == "" || keyFile == "" {
		return nil, errors.New("--cert-file and --key-file go together: give both, or neither")
	}
	certificate, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("--cert-file and --key-file: %w", err)
	}
	t.Certificates = []tls.Certificate{certificate}
	return t, nil
}

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

	"github.com/fanmail/fanmail/internal/cli/program"
	"github.com/fanmail/fanmail/pkg/client"
)

// credentials name the files with the token and the certificate that a command sends, and with the authorities that it trusts.
type credentials struct {
	tokenFile, caFile, certFile, keyFile string
}

func (c *credentials) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&c.tokenFile, "token-file", "", "file with the token to send (default $"+program.TokenFileEnv+", or the token in $"+program.TokenEnv+")")
	flags.StringVar(&c.caFile, "ca-file", "", "file with the authorities to trust, PEM (default $"+program.CAFileEnv+", or the system's)")
	flags.StringVar(&c.certFile, "cert-file", "", "file with the certificate to show, PEM (default $"+program.CertFileEnv+")")
	flags.StringVar(&c.keyFile, "key-file", "", "file with its private key, PEM (default $"+program.KeyFileEnv+")")
}

// options returns the options of a client with these credentials.
func (c *credentials) options(p program.Process) (client.Options, error) {
	transport, err := c.transport(p)
	if err != nil {
		return client.Options{}, program.Usage(err)
	}
	options := client.Options{TLS: transport}
	switch path, token := cmp.Or(c.tokenFile, p.Getenv(program.TokenFileEnv)), p.Getenv(program.TokenEnv); {
	case path != "":
		// Each request reads the file again, because an operator may exchange the token during a long command.
		options.Token = func(context.Context) (string, error) { return readToken(path) }
		if _, err := readToken(path); err != nil {
			return options, program.Usage(err)
		}
	case token != "":
		options.Token = func(context.Context) (string, error) { return token, nil }
	}
	return options, nil
}

func readToken(path string) (string, error) {
	content, err := os.ReadFile(path) //nolint:gosec // the user of the command names the file
	if err != nil {
		return "", fmt.Errorf("token file: %w", err)
	}
	token := strings.TrimSpace(string(content))
	if token == "" || strings.ContainsAny(token, " \t\r\n") {
		return "", fmt.Errorf("token file %s: it has to hold one token and nothing else", path)
	}
	return token, nil
}

// transport returns the TLS configuration, or nil for the default.
func (c *credentials) transport(p program.Process) (*tls.Config, error) {
	caFile := cmp.Or(c.caFile, p.Getenv(program.CAFileEnv))
	certFile, keyFile := cmp.Or(c.certFile, p.Getenv(program.CertFileEnv)), cmp.Or(c.keyFile, p.Getenv(program.KeyFileEnv))
	if caFile == "" && certFile == "" && keyFile == "" {
		return nil, nil //nolint:nilnil // no flag or variable configures TLS
	}
	t := &tls.Config{MinVersion: tls.VersionTLS12}
	if caFile != "" {
		authorities, err := os.ReadFile(caFile) //nolint:gosec // the user of the command names the file
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

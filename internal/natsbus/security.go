package natsbus

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"

	"github.com/nats-io/nats.go"
)

// security returns the connection options for credentials and certificates. It returns an error if a file cannot be read, because
// the client would otherwise retry without limit. Every new connection reads the files again, so an operator can replace them.
func (o Options) security() ([]nats.Option, error) {
	var needed []nats.Option
	if o.CredentialsFile != "" {
		if _, err := os.ReadFile(o.CredentialsFile); err != nil {
			return nil, fmt.Errorf("credentials: %w", err)
		}
		needed = append(needed, nats.UserCredentials(o.CredentialsFile))
	}
	if o.CAFile != "" {
		authorities, err := os.ReadFile(o.CAFile)
		if err == nil && !x509.NewCertPool().AppendCertsFromPEM(authorities) {
			err = errors.New("there is no certificate in " + o.CAFile)
		}
		if err != nil {
			return nil, fmt.Errorf("authorities: %w", err)
		}
		needed = append(needed, nats.RootCAs(o.CAFile))
	}
	if o.CertFile != "" {
		if _, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile); err != nil {
			return nil, fmt.Errorf("certificate: %w", err)
		}
		needed = append(needed, nats.ClientCert(o.CertFile, o.KeyFile))
	}
	return needed, nil
}

// explainTLS adds a probable cause to an error of connecting: the server may have refused this client's certificate. The server checks
// the certificate after the handshake has ended for the client (RFC 8446, 4.4.2). The client then either reads the server's alert, which
// names the reason, or fails to write to the closed connection.
func explainTLS(err error) error {
	alert, ok := errors.AsType[*net.OpError](err)
	alerted := ok && alert.Op == "remote error"
	closed := errors.Is(err, nats.ErrTLS) && (errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET))
	if !alerted && !closed {
		return err
	}
	return fmt.Errorf("the server ended the TLS connection; it may require a client certificate or refuse the given one: %w", err)
}

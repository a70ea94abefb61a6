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

// security returns what a connection needs to be let in. Its files are read again for every connection that is made, so that
// they can be exchanged; that they can be read is checked here, since the connection would be tried for ever without them.
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

// explainTLS adds to an err of connecting that the server may have refused this client's certificate, where it broke off. It looks
// at the certificate when the handshake is over for the client already (RFC 8446, 4.4.2), which then reads the server's alert or
// fails to write to a connection that is closed, whichever it comes to first: only the alert names the reason.
func explainTLS(err error) error {
	alert, ok := errors.AsType[*net.OpError](err)
	alerted := ok && alert.Op == "remote error"
	closed := errors.Is(err, nats.ErrTLS) && (errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET))
	if !alerted && !closed {
		return err
	}
	return fmt.Errorf("the server broke off TLS, as it does with a client whose certificate it refuses or misses: %w", err)
}

package natsbus

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

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

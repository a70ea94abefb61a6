package mongostore

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// secure makes a client trust the authorities and present the certificate that opts names. The URI may add further TLS
// settings.
func secure(o *options.ClientOptions, opts Options) error {
	if opts.CAFile == "" && opts.CertFile == "" {
		return nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.TLSConfig != nil {
		c = o.TLSConfig.Clone()
	}
	if opts.CAFile != "" {
		authorities, err := os.ReadFile(opts.CAFile)
		if err != nil {
			return fmt.Errorf("authorities: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(authorities) {
			return errors.New("authorities: there is no certificate in " + opts.CAFile)
		}
	}
	if opts.CertFile != "" {
		certificate, err := tls.LoadX509KeyPair(opts.CertFile, opts.CertFile)
		if err != nil {
			return fmt.Errorf("certificate: %w", err)
		}
		c.Certificates = []tls.Certificate{certificate}
	}
	o.SetTLSConfig(c)
	return nil
}

// withoutSecrets removes the user and password of a URI from an error. The driver quotes the parts of a URI that it cannot
// parse.
func withoutSecrets(err error, uri string) error {
	_, rest, _ := strings.Cut(uri, "://")
	end := strings.LastIndexByte(rest, '@')
	if end < 0 {
		return err
	}
	if _, malformed := errors.AsType[url.EscapeError](err); malformed {
		return errors.New("the connection string has a '%' that begins no escape: write it as %25")
	}
	text := err.Error()
	_, password, _ := strings.Cut(rest[:end], ":")
	plain, _ := url.PathUnescape(password) // if that fails, the driver could not read it either
	for _, secret := range []string{rest[:end], password, plain} {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "*****")
		}
	}
	return errors.New(text)
}

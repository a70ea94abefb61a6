package app

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/fanmail/fanmail/config"
	"github.com/fanmail/fanmail/internal/auth"
	"github.com/fanmail/fanmail/internal/httpapi"
	"github.com/fanmail/fanmail/internal/reload"
	"github.com/fanmail/fanmail/internal/startstop"
)

// ErrOpen means that other hosts could reach a server without authentication.
var ErrOpen = errors.New("which others can reach, and there is no authentication")

// CheckOpen returns an error that wraps ErrOpen if other hosts could reach a server without authentication, unless the
// configuration allows it.
func CheckOpen(cfg config.Config) error {
	if loopback(cfg.Addr) || authenticates(cfg) || cfg.Insecure {
		return nil
	}
	return fmt.Errorf("addr is %q, %w: listen on a loopback address such as %s, set auth.tokens_file, auth.jwt_keys_file or tls.client_ca_file, "+
		"or give --insecure if every client may read every inbox and publish as any user", cfg.Addr, ErrOpen, config.Default().Addr)
}

// LocalWithoutAuth returns the configuration of a server that only this host can reach, if CheckOpen would refuse it otherwise. The port
// stays the same.
func LocalWithoutAuth(cfg config.Config) config.Config {
	if errors.Is(CheckOpen(cfg), ErrOpen) {
		_, port, _ := net.SplitHostPort(cfg.Addr) // a loaded configuration has a valid address
		cfg.Addr = net.JoinHostPort("127.0.0.1", port)
	}
	return cfg
}

// authenticates reports whether clients need a token or a certificate.
func authenticates(cfg config.Config) bool {
	return cfg.Auth.Authenticates() || cfg.TLS.ClientCAFile != ""
}

// loopback reports whether only this host can reach an address.
func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

// warn logs a warning if other hosts can reach the server without authentication or without encryption.
func (a *App) warn() {
	switch cfg, log := a.config, a.opts.Logger.Warn().Str("addr", a.config.Addr); {
	case loopback(cfg.Addr):
	case !authenticates(cfg):
		log.Msg("insecure: every client that reaches this server may read every inbox and publish as any user")
	case cfg.TLS.CertFile == "":
		log.Msg("tokens and messages are not encrypted here: put a proxy that ends TLS in front, or set tls.cert_file")
	}
}

// authenticator returns the authenticator of tokens, or nil if clients need none.
func (a *App) authenticator() (httpapi.Authenticator, error) {
	if !a.config.Auth.Authenticates() {
		return nil, nil //nolint:nilnil // nothing is configured, and nothing is wrong with that
	}
	files, err := auth.New(auth.Options{
		TokensFile: a.config.Auth.TokensFile, KeysFile: a.config.Auth.JWTKeysFile, Grace: a.config.Auth.Grace,
		Audience: a.config.Auth.JWTAudience, Issuer: a.config.Auth.JWTIssuer, Now: a.opts.Now, Logger: a.opts.Logger,
	})
	if err != nil {
		return nil, err
	}
	a.stale = append(a.stale, files.Stale)
	return files, nil
}

// secure adds authentication and rate limits to the options of the HTTP interface.
func (a *App) secure(o httpapi.Options) httpapi.Options {
	r := a.config.Rate
	o.Auth = a.auth
	o.LocalOnly = !authenticates(a.config) && !a.config.Insecure
	o.SenderRate = httpapi.Rate{PerSecond: r.Sender, Burst: r.SenderBurst}
	o.AddressRate = httpapi.Rate{PerSecond: r.Address, Burst: r.AddressBurst}
	o.EdgeRate = httpapi.Rate{PerSecond: r.Edges, Burst: a.config.Limits.BatchLines}
	return o
}

// serverTLS returns the TLS configuration of the HTTP server, or nil for plain HTTP. It reloads changed files.
func (a *App) serverTLS() (*tls.Config, error) {
	t := a.config.TLS
	if t.CertFile == "" {
		return nil, nil //nolint:nilnil // nothing is configured, and nothing is wrong with that
	}
	certificates, err := reload.New(
		reload.Options{Name: "certificates", Paths: []string{t.CertFile, t.KeyFile}, Now: a.opts.Now, Logger: a.opts.Logger},
		func(contents [][]byte) (tls.Certificate, error) { return tls.X509KeyPair(contents[0], contents[1]) },
	)
	if err != nil {
		return nil, fmt.Errorf("tls.cert_file and tls.key_file: %w", err)
	}
	a.stale = append(a.stale, certificates.Stale)
	base := &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: protocols,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			current := certificates.Get()
			return &current, nil
		},
	}
	if t.ClientCAFile == "" {
		return base, nil
	}
	authorities, err := reload.New(
		reload.Options{Name: "authorities of clients", Paths: []string{t.ClientCAFile}, Grace: a.config.Auth.Grace, Now: a.opts.Now, Logger: a.opts.Logger},
		parseAuthorities,
	)
	if err != nil {
		return nil, fmt.Errorf("tls.client_ca_file: %w", err)
	}
	a.stale = append(a.stale, authorities.Stale)
	base.ClientAuth = tls.RequireAndVerifyClientCert
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: protocols, GetCertificate: base.GetCertificate,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			c := base.Clone()
			if c.ClientCAs = authorities.Get(); c.ClientCAs == nil { // crypto/tls would take the authorities of the system
				return nil, errors.New("tls.client_ca_file is missing")
			}
			return c, nil
		},
	}, nil
}

// watchFiles checks the files of tokens, keys and certificates every second. Without it the first request after a long pause would still be
// answered by what was in force before.
func (a *App) watchFiles(intake, _ context.Context) {
	for startstop.Pause(intake, time.Second); intake.Err() == nil; startstop.Pause(intake, time.Second) {
		for _, stale := range a.stale {
			stale()
		}
	}
}

var protocols = []string{"h2", "http/1.1"}

func parseAuthorities(contents [][]byte) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(contents[0]) {
		return nil, errors.New("there is no certificate in it: it has to hold those of authorities as PEM")
	}
	return pool, nil
}

// mongoURI returns the connection string, from the configuration or from the file that the configuration names.
func mongoURI(m config.MongoDB) (string, error) {
	switch {
	case m.URIFile == "":
		return string(m.URI), nil
	case m.URI != "":
		return "", errors.New("mongodb.uri_file is set, and mongodb.uri too: leave one of them empty")
	}
	content, err := os.ReadFile(m.URIFile)
	if err != nil {
		return "", fmt.Errorf("mongodb.uri_file: %w", err)
	}
	uri := strings.TrimSpace(string(content))
	if err := config.CheckMongoURI(uri); err != nil {
		return "", fmt.Errorf("mongodb.uri_file: what is in %s %w", m.URIFile, err)
	}
	return uri, nil
}

package client

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/fanmail/fanmail/pkg/message"
)

const (
	// defaultTries gets over a restart of the server, together with the pauses between.
	defaultTries = 6
	// defaultPause is the first pause; each is twice as long as the one before.
	defaultPause = 100 * time.Millisecond
	// maxPause bounds the pauses.
	maxPause = 5 * time.Second
	// connections is how many connections are kept open: as many as a busy program has calls in flight.
	connections = 64
)

// Options configures a Client. The zero Options are good for most.
type Options struct {
	// HTTP carries the requests; nil means a client of its own. Its Timeout bounds each request as a whole.
	HTTP *http.Client
	// TLS configures connections to a server at an https URL: which authorities to trust, and what certificate to show. nil means
	// those that the system trusts, and none. It is not used with HTTP.
	TLS *tls.Config
	// Token returns the token that a request carries, or why there is none; nil means that requests carry none. It is called for
	// each request, so that a token can be exchanged before it expires.
	Token func(context.Context) (string, error)
	// Tries is how often a call is tried where repeating is harmless, the first time included; 0 means 6.
	Tries int
	// Pause is the first pause between tries where the server asks for none; 0 means 100 milliseconds.
	// Each pause is twice as long as the one before, up to 5 seconds.
	Pause time.Duration
}

// Client talks to one Fanmail server. It is safe for concurrent use.
type Client struct {
	base  string
	http  *http.Client
	token func(context.Context) (string, error)
	tries int
	pause time.Duration
}

// New returns a client of the server at a URL such as http://127.0.0.1:8080. It does not connect.
func New(server string, opts Options) (*Client, error) {
	base, err := url.Parse(server)
	switch {
	case err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https":
		return nil, fmt.Errorf("server %q is not a URL such as http://127.0.0.1:8080", server)
	case base.RawQuery != "" || base.Fragment != "":
		return nil, fmt.Errorf("server %q has a query or a fragment: leave them out", server)
	}
	c := &Client{base: strings.TrimRight(base.String(), "/"), http: opts.HTTP, token: opts.Token, tries: opts.Tries, pause: opts.Pause}
	if c.http == nil {
		transport := &http.Transport{
			Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, TLSClientConfig: opts.TLS,
			MaxIdleConns: connections, MaxIdleConnsPerHost: connections, IdleConnTimeout: time.Minute,
		}
		c.http = &http.Client{Transport: transport}
	}
	if c.tries <= 0 {
		c.tries = defaultTries
	}
	if c.pause <= 0 {
		c.pause = defaultPause
	}
	return c, nil
}

// Close closes connections that are not in use. The client can be used again.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// userPath returns the path of something of a user, having checked the id: one that is not valid could make it the path
// of something else.
func userPath(field string, user message.UserID, rest string) (string, error) {
	if err := user.Validate(field); err != nil {
		return "", err
	}
	return "/v1/users/" + url.PathEscape(string(user)) + rest, nil
}

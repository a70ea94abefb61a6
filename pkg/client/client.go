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
	// defaultTries is the default of Options.Tries. The tries and the pauses between them take longer than a restart of the server.
	defaultTries = 6
	// defaultPause is the first pause. Each further pause is twice as long.
	defaultPause = 100 * time.Millisecond
	// maxPause limits the doubled pauses. A pause that the server asks for may be longer.
	maxPause = 5 * time.Second
	// connections is the number of idle connections that stay open: about the number of calls that a busy program has in flight.
	connections = 64
)

// Options configures a Client. Every zero value stands for a default.
type Options struct {
	// Rehydrator is the URL of the rehydrator, which serves inboxes, users and administration, if roles run apart. The server given to New
	// is the publisher then. Empty means that the server serves everything: it has all roles, or a proxy that routes by path stands in front.
	Rehydrator string
	// HTTP sends the requests; nil means a new client. Its Timeout limits each request, including the answer.
	HTTP *http.Client
	// TLS configures connections to https URLs: the trusted authorities and the client certificate. nil means the authorities that
	// the system trusts, and no client certificate. TLS is ignored if HTTP is set.
	TLS *tls.Config
	// Token returns the token for a request, or an error that ends the call. nil means that requests have no token. Token is called
	// for each request, so the caller can replace a token before it expires.
	Token func(context.Context) (string, error)
	// Tries is the maximum number of tries of a call that may be repeated, including the first; 0 means 6.
	Tries int
	// Pause is the first pause between tries; 0 means 100 milliseconds. Each further pause is twice as long, up to 5 seconds. If
	// the server asks for a longer pause, the client waits that long.
	Pause time.Duration
}

// Client talks to one Fanmail server, or to a publisher and a rehydrator. It is safe for concurrent use.
type Client struct {
	publisher, rehydrator string // URLs without a slash at the end
	http                  *http.Client
	token                 func(context.Context) (string, error)
	tries                 int
	pause                 time.Duration
}

// New returns a client of the server at a URL such as http://127.0.0.1:8080. It does not connect.
func New(server string, opts Options) (*Client, error) {
	publisher, err := baseURL("server", server)
	if err != nil {
		return nil, err
	}
	rehydrator := publisher
	if opts.Rehydrator != "" {
		if rehydrator, err = baseURL("rehydrator", opts.Rehydrator); err != nil {
			return nil, err
		}
	}
	c := &Client{
		publisher: publisher, rehydrator: rehydrator, http: opts.HTTP, token: opts.Token, tries: opts.Tries, pause: opts.Pause,
	}
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

// baseURL checks the URL of a server, and returns it without a slash at the end.
func baseURL(name, server string) (string, error) {
	base, err := url.Parse(server)
	switch {
	case err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https":
		return "", fmt.Errorf("%s %q is not a URL such as http://127.0.0.1:8080", name, server)
	case base.RawQuery != "" || base.Fragment != "":
		return "", fmt.Errorf("%s %q has a query or a fragment: leave them out", name, server)
	default:
		return strings.TrimRight(base.String(), "/"), nil
	}
}

// Close closes connections that are not in use. The client can be used again.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// atUser returns the target below a user. It checks the id first, because an invalid id could change the meaning of the path.
func atUser(user message.UserID, rest string) target {
	return target{"/v1/users/" + url.PathEscape(string(user)) + rest, user.Validate("user")}
}

// published are what the publisher serves: the first part of a path, or the one after a user. The rehydrator serves the rest.
var published = map[string]bool{
	"messages": true, "following": true, "followers": true, "blocked": true, "identities": true, "topics": true, "subscriptions": true,
}

// serverOf returns the URL of the role that serves a path.
func (c *Client) serverOf(path string) string {
	parts := strings.Split(strings.TrimPrefix(path, "/v1/"), "/")
	of := parts[0]
	if of == "users" && len(parts) > 2 {
		of = parts[2]
	}
	of, _, _ = strings.Cut(of, ":") // an action, such as that of /v1/messages:batch
	if published[of] {
		return c.publisher
	}
	return c.rehydrator
}

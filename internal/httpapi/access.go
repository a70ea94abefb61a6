package httpapi

import (
	"errors"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/fanmail/fanmail/internal/auth"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

// Authenticator returns the principal of a token. It returns auth.ErrUnknown for an unknown token and an *auth.InvalidError for one
// that is not valid.
type Authenticator interface {
	Authenticate(token string) (*auth.Principal, error)
}

// access is the permission that an endpoint requires. The zero value admits only admins, so an endpoint without an explicit
// access is closed.
type access struct {
	// open allows every client.
	open bool
	// scopes are the scopes of which a token needs one; admin is enough, too.
	scopes []auth.Scope
	// scopesOnly means that admin is not enough.
	scopesOnly bool
	// own means that the token must belong to the user in the path.
	own bool
}

var (
	// open is for monitoring.
	open = access{open: true}
	// publishers may publish; handlers check the sender of each message.
	publishers = access{scopes: []auth.Scope{auth.Publish}, scopesOnly: true}
	// listers may list messages; handlers check the author.
	listers = access{scopes: []auth.Scope{auth.Publish, auth.Operate}}
	// eitherEnd is for what everybody may know who sends or receives messages.
	eitherEnd = access{scopes: []auth.Scope{auth.Publish, auth.Read}}
	// ofMessage is for the sender and the recipients of a message, where handlers check the message, and for operators.
	ofMessage = access{scopes: []auth.Scope{auth.Publish, auth.Read, auth.Operate}}
	// owner is for the user in the path.
	owner = access{scopes: []auth.Scope{auth.Read}, own: true}
	// readers are users; handlers check each user whom the body names.
	readers = access{scopes: []auth.Scope{auth.Read}}
	// watchers read metrics.
	watchers = access{scopes: []auth.Scope{auth.Metrics}}
	// operators look at how the deployment works.
	operators = access{scopes: []auth.Scope{auth.Operate}}
	// admins are operators who change it.
	admins = access{}
)

// needed returns the scopes of which a token needs one; none if every client is allowed.
func (a access) needed() []auth.Scope {
	if a.open || a.scopesOnly {
		return a.scopes
	}
	return append(slices.Clip(a.scopes), auth.Admin)
}

// admit authenticates a request and records its principal in w. It returns a problem if the request is not allowed.
func (s *server) admit(w *response, r *http.Request, a access) error {
	if a.open {
		return nil
	}
	if err := s.addresses.take(addressKey(r.RemoteAddr), "address"); err != nil {
		return err
	}
	if err := s.crossOrigin(r); err != nil {
		return err
	}
	return s.identify(w, r, a)
}

// identify finds out whose request it is, and whether that client may make it.
func (s *server) identify(w *response, r *http.Request, a access) error {
	principal, err := s.authenticate(w, r)
	if err != nil {
		return err
	}
	w.principal = principal
	needed := a.needed()
	switch {
	case !principal.Has(needed...):
		w.Header().Set("WWW-Authenticate", challenge+`, error="insufficient_scope", scope="`+scopeList(needed)+`"`)
		return refuse(client.ProblemForbidden, "", "the token lacks the scope for this: it takes %s", strings.ReplaceAll(scopeList(needed), " ", " or "))
	case a.own && !principal.Reads(message.UserID(r.PathValue("user"))):
		return refuse(client.ProblemForbidden, "user", "the token does not belong to this user: use a token of the user")
	}
	return nil
}

func scopeList(scopes []auth.Scope) string {
	texts := make([]string, len(scopes))
	for i, scope := range scopes {
		texts[i] = string(scope)
	}
	return strings.Join(texts, " ")
}

// challenge is the beginning of WWW-Authenticate (RFC 6750).
const challenge = `Bearer realm="fanmail"`

func (s *server) authenticate(w *response, r *http.Request) (*auth.Principal, error) {
	if s.opts.Auth == nil {
		return s.anyone, nil
	}
	token, err := bearer(r.Header)
	if err == nil {
		principal, err := s.opts.Auth.Authenticate(token)
		if err == nil {
			return principal, nil
		}
		return nil, s.unauthorized(w, r, err)
	}
	w.Header().Set("WWW-Authenticate", challenge)
	return nil, err
}

// unauthorized returns the problem for a refused token, with the reason if the client may know it. The log never contains the token.
func (s *server) unauthorized(w *response, r *http.Request, err error) error {
	detail, description := "the token is unknown: check it, and whether it was revoked", ""
	if invalid, ok := errors.AsType[*auth.InvalidError](err); ok {
		detail = invalid.Error() + ": get another one"
		description = `, error_description="` + invalid.Reason + `"` // no reason has a quote or quotes the token
	}
	s.refusals.Warn().Err(err).Str("request", w.request).Str("address", r.RemoteAddr).Str("pattern", r.Pattern).Msg("a token was refused")
	w.Header().Set("WWW-Authenticate", challenge+`, error="invalid_token"`+description)
	return refuse(client.ProblemUnauthorized, "Authorization", "%s", detail)
}

// bearer returns the token that a request carries.
func bearer(h http.Header) (string, error) {
	values := h.Values("Authorization")
	if len(values) == 1 {
		scheme, token, _ := strings.Cut(values[0], " ")
		if token = strings.TrimSpace(token); strings.EqualFold(scheme, "Bearer") && token != "" {
			return token, nil
		}
	}
	return "", refuse(client.ProblemUnauthorized, "Authorization", "the request carries no token: send one as Authorization: Bearer TOKEN")
}

// crossOrigin refuses requests that a page of another site makes a browser send: a browser may reach servers that the site cannot.
func (s *server) crossOrigin(r *http.Request) error {
	// Check admits every GET. Here a GET can change state: reading an inbox records the visit and may start a rebuild.
	asked := *r
	asked.Method = http.MethodPost
	if s.sites.Check(&asked) != nil {
		return refuse(client.ProblemForbidden, "Origin", "the request comes from a page of another site: requests of browsers are answered for this server's own pages only")
	}
	return s.forThisHost(r)
}

// forThisHost refuses requests to a server without authentication by a name that may be another site's.
func (s *server) forThisHost(r *http.Request) error {
	if s.opts.LocalOnly && !localHost(r.Host) {
		return refuse(client.ProblemForbidden, "Host", "the request is for the host %q, and this server has no authentication: "+
			"use its IP address or localhost", shorten(r.Host))
	}
	return nil
}

// localHost reports whether a Host header has an IP address, localhost or no name. Any other name may belong to another site, which
// can point it at this host.
func localHost(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.Trim(name, "[]")
	return name == "" || name == "localhost" || net.ParseIP(name) != nil
}

// maySend refuses a message that the principal may not publish, or that exceeds the rate of the sender.
func (s *server) maySend(w *response, from message.UserID) error {
	if !w.principal.Sends(from) {
		return refuse(client.ProblemForbidden, "from", "the token does not allow to publish as %q", shorten(string(from)))
	}
	if from.Validate("from") == nil { // the validation of messages reports an invalid sender
		return s.senders.take(string(from), "sender")
	}
	return nil
}

// mayPublish refuses a draft that the principal may not publish: by its sender, or by one of its topics.
func (s *server) mayPublish(w *response, draft client.Draft) error {
	for i, topic := range draft.Topics {
		if !w.principal.MayPublishTo(topic) {
			return refuse(client.ProblemForbidden, "topics["+strconv.Itoa(i)+"]", "the token does not allow to publish to the topic %q", shorten(string(topic)))
		}
	}
	return s.maySend(w, draft.From)
}

// mayRead refuses a request for a user for whom the principal may not act.
func (w *response) mayRead(field string, user message.UserID) error {
	if !w.principal.Reads(user) {
		return refuse(client.ProblemForbidden, field, "the token does not belong to %q", shorten(string(user)))
	}
	return nil
}

// mayAdd is mayRead for a new edge of the user. It refuses one that exceeds the user's rate, unless an operator makes it.
func (s *server) mayAdd(w *response, field string, user message.UserID) error {
	if err := w.mayRead(field, user); err != nil || w.principal.Has(auth.Admin) {
		return err
	}
	return s.edges.take(string(user), "user")
}

// maySubscribe refuses a topic that the token does not list.
func (w *response) maySubscribe(topic message.Topic) error {
	if !w.principal.MaySubscribe(topic) {
		return refuse(client.ProblemForbidden, "topic", "the token does not allow to subscribe to the topic %q", shorten(string(topic)))
	}
	return nil
}

// sees reports whether the principal is the sender or a recipient of a message.
func (s *server) sees(w *response, r *http.Request, m message.Message) (bool, error) {
	if w.sent(m) {
		return true, nil
	}
	user := w.principal.User()
	if user == "" {
		return false, nil
	}
	return s.Reporter.For(r.Context(), m, user)
}

// sent reports whether the principal is the sender of a message, or reads all.
func (w *response) sent(m message.Message) bool {
	user := w.principal.User()
	return w.principal.ReadsAll() || w.principal.Sends(m.From) || user != "" && user == m.From
}

package httpapi

import (
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/fanmail/fanmail/internal/auth"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

// Authenticator tells whose a token is: auth.ErrUnknown or an *auth.InvalidError if nobody's.
type Authenticator interface {
	Authenticate(token string) (*auth.Principal, error)
}

// access tells who may use an endpoint. Its zero value is for operators alone: what nobody has thought about is not for
// strangers.
type access struct {
	// open is for everybody.
	open bool
	// scopes are those of which a token needs one, beside admin.
	scopes []auth.Scope
	// scopesOnly tells that admin does not do instead.
	scopesOnly bool
	// own tells that the token has to be one of the user that the path names.
	own bool
}

var (
	// open is for whoever watches a process.
	open = access{open: true}
	// publishers may publish; handlers look at each message's sender.
	publishers = access{scopes: []auth.Scope{auth.Publish}, scopesOnly: true}
	// eitherEnd is for who sends and who receives; handlers look at the message.
	eitherEnd = access{scopes: []auth.Scope{auth.Publish, auth.Read}}
	// owner is for the user that the path names.
	owner = access{scopes: []auth.Scope{auth.Read}, own: true}
	// readers are for users; handlers look at the user of each line.
	readers = access{scopes: []auth.Scope{auth.Read}}
	// watchers read what is measured.
	watchers = access{scopes: []auth.Scope{auth.Metrics}}
	// admins are operators.
	admins = access{}
)

// needed returns the scopes of which a token needs one; none if everybody may.
func (a access) needed() []auth.Scope {
	if a.open || a.scopesOnly {
		return a.scopes
	}
	return append(slices.Clip(a.scopes), auth.Admin)
}

// admit tells who makes a request, or refuses it.
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
	who, err := s.authenticate(w, r)
	if err != nil {
		return err
	}
	w.who = who
	needed := a.needed()
	switch {
	case !who.Has(needed...):
		w.Header().Set("WWW-Authenticate", challenge+`, error="insufficient_scope", scope="`+scopeList(needed)+`"`)
		return refuse(client.ProblemForbidden, "", "the token lacks the scope for this: it takes %s", strings.ReplaceAll(scopeList(needed), " ", " or "))
	case a.own && !who.Reads(message.UserID(r.PathValue("user"))):
		return refuse(client.ProblemForbidden, "user", "the token is not this user's: use one of theirs")
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

// challenge is what WWW-Authenticate begins with (RFC 6750).
const challenge = `Bearer realm="fanmail"`

func (s *server) authenticate(w *response, r *http.Request) (*auth.Principal, error) {
	if s.opts.Auth == nil {
		return s.anyone, nil
	}
	token, err := bearer(r.Header)
	if err == nil {
		who, err := s.opts.Auth.Authenticate(token)
		if err == nil {
			return who, nil
		}
		return nil, s.unauthorized(w, r, err)
	}
	w.Header().Set("WWW-Authenticate", challenge)
	return nil, err
}

// unauthorized refuses a token, and says why as far as its bearer may know. The log never has the token.
func (s *server) unauthorized(w *response, r *http.Request, err error) error {
	detail := "the token is not known: check it, and whether it was taken back"
	if invalid, ok := errors.AsType[*auth.InvalidError](err); ok {
		detail = invalid.Error() + ": get another one"
	}
	s.complaints.Warn().Err(err).Str("request", w.request).Str("address", r.RemoteAddr).Str("pattern", r.Pattern).Msg("a token was refused")
	w.Header().Set("WWW-Authenticate", challenge+`, error="invalid_token"`)
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

// crossOrigin refuses what a page of another site makes a browser send, which may reach servers that strangers do not.
func (s *server) crossOrigin(r *http.Request) error {
	// That somebody reads their inbox is noted, and may have it rebuilt: a GET is no more harmless here than what Check looks at.
	asked := *r
	asked.Method = http.MethodPost
	if s.sites.Check(&asked) != nil {
		return refuse(client.ProblemForbidden, "Origin", "the request comes from a page of another site: requests of browsers are answered for this server's own pages only")
	}
	if s.opts.LocalOnly && !localHost(r.Host) {
		return refuse(client.ProblemForbidden, "Host", "the request is for the host %q, and this server asks nobody who they are: "+
			"reach it by its IP address or as localhost", shorten(r.Host))
	}
	return nil
}

// localHost tells whether a Host header has no name that a stranger could have pointed at this host.
func localHost(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.Trim(name, "[]")
	return name == "" || name == "localhost" || net.ParseIP(name) != nil
}

// maySend refuses a message that the principal must not publish, or of which its sender has sent too many.
func (s *server) maySend(w *response, from message.UserID) error {
	if !w.who.Sends(from) {
		return refuse(client.ProblemForbidden, "from", "the token does not allow to publish as %q", shorten(string(from)))
	}
	if from.Validate("from") == nil { // what is wrong with it is told where messages are validated
		return s.senders.take(string(from), "sender")
	}
	return nil
}

// mayRead refuses what the principal must not do for a user.
func (w *response) mayRead(field string, user message.UserID) error {
	if !w.who.Reads(user) {
		return refuse(client.ProblemForbidden, field, "the token is not that of %q", shorten(string(user)))
	}
	return nil
}

// sees tells whether the principal is at either end of a message.
func (s *server) sees(w *response, r *http.Request, m message.Message) (bool, error) {
	user := w.who.User()
	switch {
	case w.who.ReadsAll(), w.who.Sends(m.From):
		return true, nil
	case user == "":
		return false, nil
	case user == m.From:
		return true, nil
	}
	return s.Reporter.For(r.Context(), m, user)
}

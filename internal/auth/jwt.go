package auth

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	josejson "github.com/go-jose/go-jose/v4/json"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/fanmail/fanmail/pkg/message"
)

const (
	// leeway is how far the clock of who makes tokens may be from this one.
	leeway = 30 * time.Second
	// maxJWTBytes bounds what is parsed before anything of it is known to be true.
	maxJWTBytes = 8 << 10
)

// algorithms are those that tokens may be signed with: none of them has a secret that this server would have to know.
var algorithms = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
}

// claims are what a JWT says, beyond what every JWT may say.
type claims struct {
	jwt.Claims

	Scope              string
	Senders            []string
	Identities, Topics list
	Subscribe          list
	restricted         bool // Subscribe is there, so that it grants nothing if it means something else
}

// decode reads claims. An error names the claim that is of another type.
func (c *claims) decode(payload []byte) error {
	var texts map[string]json.RawMessage
	if josejson.Unmarshal(payload, &texts) != nil { // it refuses a name that is there twice
		return &InvalidError{Reason: "its claims are not a JSON object with each name at most once"}
	}
	for _, claim := range []struct {
		name, want string
		to         any
	}{
		{"iss", "a string", &c.Issuer},
		{"sub", "a string", &c.Subject},
		{"aud", "a string or an array of strings", &c.Audience},
		{"exp", "a number", &c.Expiry},
		{"nbf", "a number", &c.NotBefore},
		{"iat", "a number", &c.IssuedAt},
		{"scope", "a string with scopes separated by spaces", &c.Scope},
		{"senders", "an array of strings", &c.Senders},
		{"identities", "an array", &c.Identities},
		{"topics", "an array", &c.Topics},
		{"subscribe", "an array", &c.Subscribe},
	} {
		if text, found := texts[claim.name]; found && json.Unmarshal(text, claim.to) != nil {
			return &InvalidError{Reason: "its " + claim.name + " is not " + claim.want}
		}
	}
	_, c.restricted = texts["subscribe"]
	return nil
}

// verifier verifies JWTs.
type verifier struct {
	audience, issuer string
	now              func() time.Time
}

// verify returns whose token a JWT is. What is wrong with one that was not signed with any of the keys stays untold.
func (v verifier) verify(text string, keys []key) (*Principal, error) {
	if len(text) > maxJWTBytes {
		return nil, ErrUnknown
	}
	parsed, err := jwt.ParseSigned(text, algorithms)
	if err != nil || len(parsed.Headers) != 1 {
		return nil, ErrUnknown
	}
	var payload json.RawMessage
	signed := slices.ContainsFunc(keys, func(k key) bool {
		return k.fits(parsed.Headers[0]) && parsed.Claims(k.public, &payload) == nil
	})
	if !signed {
		return nil, ErrUnknown
	}
	// The same key may sign tokens for other purposes (RFC 8725, 3.11).
	if kind := parsed.Headers[0].ExtraHeaders[jose.HeaderType]; kind != nil &&
		!slices.Contains([]string{"jwt", "at+jwt"}, strings.TrimPrefix(strings.ToLower(fmt.Sprint(kind)), "application/")) {
		return nil, &InvalidError{Reason: "its typ is neither JWT nor at+jwt"}
	}
	var c claims
	if err := c.decode(payload); err != nil {
		return nil, err
	}
	return v.principal(c)
}

// principal returns whom claims that were signed stand for.
func (v verifier) principal(c claims) (*Principal, error) {
	expected := jwt.Expected{AnyAudience: jwt.Audience{v.audience}, Issuer: v.issuer, Time: v.now()}
	switch {
	case c.Expiry == nil:
		return nil, &InvalidError{Reason: "it has no exp"}
	case c.ValidateWithLeeway(expected, leeway) != nil:
		return nil, &InvalidError{Reason: v.reason(c, expected)}
	}
	p := &Principal{name: "jwt:" + c.Subject, scopes: grantedBy(c.Scope), kinds: c.Identities.kinds(), topics: c.Topics.topics(), subscribe: everyTopic}
	if c.restricted {
		p.subscribe = c.Subscribe.topics()
	}
	if user := message.UserID(c.Subject); user.Validate("sub") == nil {
		p.user = user
	}
	switch {
	case c.Senders != nil:
		parsed, err := parseSenders(c.Senders)
		if err != nil {
			return nil, &InvalidError{Reason: "its senders are not user ids"}
		}
		p.senders = parsed
	case p.user != "":
		p.senders = senders{{text: string(p.user)}} // a user publishes as themselves
	}
	return p, nil
}

// reason tells why claims are not valid.
func (v verifier) reason(c claims, expected jwt.Expected) string {
	switch now := expected.Time; {
	case now.Add(-leeway).After(c.Expiry.Time()):
		return "it has expired"
	case c.NotBefore != nil && now.Add(leeway).Before(c.NotBefore.Time()), c.IssuedAt != nil && now.Add(leeway).Before(c.IssuedAt.Time()):
		return "it is not valid yet"
	case !c.Audience.Contains(v.audience):
		return "it is for another audience"
	default:
		return "it is of another issuer"
	}
}

// grantedBy returns those scopes of a scope claim that mean something here.
func grantedBy(claim string) []Scope {
	var granted []Scope
	for text := range strings.FieldsSeq(claim) {
		if s := Scope(text); slices.Contains(scopes(), s) {
			granted = append(granted, s)
		}
	}
	return granted
}

// Package auth tells who makes a request, by the token that it carries, and what they may do.
//
// A token is a random string whose SHA-256 stands in a tokens file, or a JSON Web Token (RFC 7519). That is signed with a key of a keys
// file. Both files are read again when they change (package reload), so an operator can exchange tokens and keys while servers run.
package auth

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/fanmail/fanmail/internal/reload"
)

// ErrUnknown says that a token is not in the tokens file, and not signed with any of the keys.
var ErrUnknown = errors.New("the token is not known")

// InvalidError says that a token is known, and not valid now.
type InvalidError struct {
	// Reason continues the sentence that the token begins, such as "it has expired".
	Reason string
}

// Error returns the sentence.
func (e *InvalidError) Error() string { return "the token is not valid: " + e.Reason }

// Options says what tokens there are. At least one of the files has to be there.
type Options struct {
	// TokensFile is the path of a YAML file with the hashes of tokens, or empty.
	TokensFile string
	// KeysFile is the path of a file with the keys that JSON Web Tokens are signed with, or empty.
	KeysFile string
	// Audience is what such a token has to name in aud. It is required with KeysFile.
	Audience string
	// Issuer is what such a token has to have for its iss; empty if any will do.
	Issuer string
	// Grace is how long tokens and keys stay valid while their file is missing.
	Grace time.Duration
	// Now is the clock. It is required.
	Now    func() time.Time
	Logger zerolog.Logger
}

// Authenticator knows tokens. It is safe for concurrent use.
type Authenticator struct {
	tokens *reload.Value[tokens]
	keys   *reload.Value[[]key]
	jwt    verifier
	now    func() time.Time
}

// New reads the files, and returns an error that says what is wrong with them.
func New(opts Options) (*Authenticator, error) {
	switch {
	case opts.TokensFile == "" && opts.KeysFile == "":
		return nil, errors.New("auth: there is neither a tokens file nor a keys file")
	case opts.KeysFile != "" && opts.Audience == "":
		return nil, errors.New("auth: there is a keys file and no audience")
	}
	a := &Authenticator{jwt: verifier{audience: opts.Audience, issuer: opts.Issuer, now: opts.Now}, now: opts.Now}
	var err error
	if a.tokens, err = load(opts, "tokens", opts.TokensFile, parseTokens); err != nil {
		return nil, err
	}
	a.keys, err = load(opts, "keys of tokens", opts.KeysFile, func(content []byte) ([]key, error) {
		keys, ignored, err := parseKeys(content)
		if err == nil {
			opts.Logger.Info().Int("keys", len(keys)).Strs("ignored", ignored).Msg("keys of tokens were read")
		}
		return keys, err
	})
	return a, err
}

// load returns what is in a file, or nothing if there is none.
func load[T any](opts Options, name, path string, parse func([]byte) (T, error)) (*reload.Value[T], error) {
	if path == "" {
		return nil, nil //nolint:nilnil // nothing is configured, and nothing is wrong with that
	}
	v, err := reload.New(
		reload.Options{Name: name, Paths: []string{path}, Grace: opts.Grace, Now: opts.Now, Logger: opts.Logger},
		func(contents [][]byte) (T, error) { return parse(contents[0]) },
	)
	if err != nil {
		return nil, fmt.Errorf("auth: %s: %s: %w", name, path, err)
	}
	return v, nil
}

// Stale reports whether a file is missing or refused.
func (a *Authenticator) Stale() bool {
	return a.tokens != nil && a.tokens.Stale() || a.keys != nil && a.keys.Stale()
}

// NextExpiry returns when the next token of the tokens file expires, or the zero time if none will.
func (a *Authenticator) NextExpiry() (next time.Time) {
	if a.tokens == nil {
		return next
	}
	now := a.now()
	for _, t := range a.tokens.Get() {
		if t.expires.After(now) && (next.IsZero() || t.expires.Before(next)) {
			next = t.expires
		}
	}
	return next
}

// Authenticate returns the principal of a token. It returns ErrUnknown for an unknown token, and an *InvalidError for one that is not
// valid.
func (a *Authenticator) Authenticate(text string) (*Principal, error) {
	if len(text) < minTokenBytes {
		return nil, ErrUnknown
	}
	if a.tokens != nil {
		if t := a.tokens.Get().find(text); t != nil {
			if !t.expires.IsZero() && !a.now().Before(t.expires) {
				return nil, &InvalidError{Reason: "it has expired"}
			}
			return t.principal, nil
		}
	}
	if a.keys != nil && strings.Count(text, ".") == 2 {
		return a.jwt.verify(text, a.keys.Get())
	}
	return nil, ErrUnknown
}

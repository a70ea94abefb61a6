package httpapi

import (
	"net/http"

	"github.com/fanmail/fanmail/internal/identities"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/identity"
	"github.com/fanmail/fanmail/pkg/message"
)

// identity tells who has the identity in the path.
func (s *server) identity(w *response, r *http.Request) error {
	return s.answerIdentity(w, r, message.Identity{Kind: r.PathValue("kind"), Value: r.PathValue("value")})
}

// lookupIdentity tells who has the identity in the body.
func (s *server) lookupIdentity(w *response, r *http.Request) error {
	var asked message.Identity
	if err := readObject(w, r, smallBytes, &asked); err != nil {
		return err
	}
	return s.answerIdentity(w, r, asked)
}

// answerIdentity tells who has an identity. To a token that may not address its kind, no user has it.
func (s *server) answerIdentity(w *response, r *http.Request, asked message.Identity) error {
	id, err := s.Identities.Identity(asked.Kind, asked.Value)
	if err != nil {
		return err
	}
	if !w.principal.MayAddress(asked.Kind) {
		return identity.ErrNotFound
	}
	user, err := s.Identities.Get(r.Context(), id)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, client.ContentJSON, client.IdentityUser{User: user})
}

func (s *server) setIdentity(w *response, r *http.Request) error {
	id, err := s.changeable(w, message.Identity{Kind: r.PathValue("kind"), Value: r.PathValue("value")})
	if err != nil {
		return err
	}
	var body client.IdentityUser
	if err := readObject(w, r, smallBytes, &body); err != nil {
		return err
	}
	results, err := s.Identities.Claim(r.Context(), []identities.Claim{{Identity: id, User: body.User}})
	if err != nil {
		return err
	}
	if results[0] != nil {
		return results[0]
	}
	return noContent(w)
}

func (s *server) setIdentityBatch(w *response, r *http.Request) error {
	decode := func(line client.IdentityLine) (identities.Claim, error) {
		id, err := s.changeable(w, message.Identity{Kind: line.Kind, Value: line.Value})
		return identities.Claim{Identity: id, User: line.User}, err
	}
	return handleBatch(s, w, r, decode, func(claims []identities.Claim) ([]error, error) {
		return s.Identities.Claim(r.Context(), claims)
	})
}

func (s *server) deleteIdentity(w *response, r *http.Request) error {
	id, err := s.changeable(w, message.Identity{Kind: r.PathValue("kind"), Value: r.PathValue("value")})
	if err != nil {
		return err
	}
	query := r.URL.Query()
	user := message.UserID(query.Get("user"))
	if query.Has("user") {
		if err := user.Validate("user"); err != nil {
			return err
		}
	}
	return done(w, s.Identities.Delete(r.Context(), id, user))
}

// changeable returns the canonical form of an identity that a request changes. It refuses one that the token may not address, because a change
// that does nothing would mislead the client. The refusal is the same for every value, so it reveals nothing.
func (s *server) changeable(w *response, asked message.Identity) (identity.Identity, error) {
	id, err := s.Identities.Identity(asked.Kind, asked.Value)
	if err == nil && !w.principal.MayAddress(asked.Kind) {
		err = refuse(client.ProblemForbidden, "kind", "the token does not list the kind %q among its identities", asked.Kind)
	}
	return id, err
}

// identities lists the identities of a user that the token may address.
func (s *server) identities(w *response, r *http.Request, user message.UserID) error {
	ids, err := s.Identities.List(r.Context(), user)
	if err != nil {
		return err
	}
	answer := client.Identities{Identities: []message.Identity{}}
	for _, id := range ids {
		if w.principal.MayAddress(string(id.Kind)) {
			answer.Identities = append(answer.Identities, message.Identity{Kind: string(id.Kind), Value: id.Value})
		}
	}
	return writeJSON(w, http.StatusOK, client.ContentJSON, answer)
}

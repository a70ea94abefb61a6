package client

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/fanmail/fanmail/pkg/message"
)

// IdentityUser is the user who has an identity.
type IdentityUser struct {
	User message.UserID `json:"user"`
}

// Identities are the identities of a user.
type Identities struct {
	Identities []message.Identity `json:"identities"`
}

// IdentityLine is a line of a batch of identities: a user, and an identity that the user gets.
type IdentityLine struct {
	Kind  string         `json:"kind"`
	Value string         `json:"value"`
	User  message.UserID `json:"user"`
}

// SetIdentity gives a user an identity. It is idempotent. The server refuses an identity that belongs to another user (ProblemConflict). It
// refuses a malformed value, an unknown kind, and the 21st identity of a user (ProblemInvalid). The value is part of the request's URL,
// which a proxy may log; SetIdentityBatch sends values in the body.
func (c *Client) SetIdentity(ctx context.Context, id message.Identity, user message.UserID) error {
	to := atIdentity(id)
	to.err = cmp.Or(to.err, user.Validate("user"))
	return c.tell(ctx, http.MethodPut, to, nil, IdentityUser{User: user})
}

// SetIdentityBatch gives users identities. Each line succeeds or fails alone, like SetIdentity. Of lines with the same identity the first
// counts. SetIdentityBatch is idempotent: after an error the caller can send the batch again.
func (c *Client) SetIdentityBatch(ctx context.Context, lines []IdentityLine) (BatchResult, error) {
	return sendBatch(ctx, c, "/v1/identities:batch", lines)
}

// DeleteIdentity takes an identity away from the user who has it. Unless user is empty, it does so only if that user has it. It is
// idempotent. The value is part of the request's URL, which a proxy may log.
func (c *Client) DeleteIdentity(ctx context.Context, id message.Identity, user message.UserID) error {
	query := url.Values{}
	if user != "" {
		query.Set("user", string(user))
	}
	return c.tell(ctx, http.MethodDelete, atIdentity(id), query, nil)
}

// Identity returns the user who has an identity. If no user has it, or the token may not address its kind, the error is a *Problem of the
// type ProblemNotFound. The request has the value in its body, not in its URL.
func (c *Client) Identity(ctx context.Context, id message.Identity) (message.UserID, error) {
	got, err := ask[IdentityUser](ctx, c, http.MethodPost, at("/v1/identities:lookup"), nil, id)
	return got.User, err
}

// Identities returns the identities of a user, as far as the token may address their kinds. A user without any, and one who was never
// seen, has an empty list.
func (c *Client) Identities(ctx context.Context, user message.UserID) ([]message.Identity, error) {
	got, err := get[Identities](ctx, c, atUser(user, "/identities"), nil)
	return got.Identities, err
}

// atIdentity returns the target of an identity. The errors do not repeat the value.
func atIdentity(id message.Identity) target {
	var err error
	switch {
	case id.Kind == "":
		err = &message.InvalidError{Field: "kind", Reason: "is empty: give one such as email"}
	case id.Value == "":
		err = &message.InvalidError{Field: "value", Reason: "is empty"}
	}
	return target{"/v1/identities/" + segment(id.Kind) + "/" + segment(id.Value), err}
}

// segment returns text as one segment of a path that no proxy and no server takes for a dot segment.
func segment(text string) string {
	if escaped := url.PathEscape(text); strings.Trim(escaped, ".") != "" {
		return escaped
	}
	return strings.ReplaceAll(text, ".", "%2E")
}

package client

import (
	"context"
	"net/http"

	"github.com/fanmail/fanmail/pkg/message"
)

// Retention says what of one user's inbox is kept. If both fields are set, a message expires as soon as either says so.
type Retention struct {
	// MaxAge is how long after it was sent a message expires: a duration such as 720h or 30d. If it is empty, retention.max_age holds.
	MaxAge string `json:"max_age,omitempty"`
	// Newest is how many messages the inbox keeps at least, up to 10,000,000; older ones expire. If it is 0,
	// retention.newest holds.
	Newest int64 `json:"newest,omitempty"`
}

// Retention returns a user's own retention: the zero value if the user has none, or was never seen.
func (c *Client) Retention(ctx context.Context, user message.UserID) (Retention, error) {
	return get[Retention](ctx, c, atUser(user, "/retention"), nil)
}

// SetRetention gives a user a retention of their own, in place of an earlier one. What it does not keep has expired when SetRetention
// returns, permanently. The user need not have been seen. The server refuses a MaxAge that is not shorter than retention.max_age
// (ProblemInvalid). It is idempotent.
func (c *Client) SetRetention(ctx context.Context, user message.UserID, keep Retention) error {
	return c.tell(ctx, http.MethodPut, atUser(user, "/retention"), nil, keep)
}

// DeleteRetention removes a user's own retention, so that the deployment's holds. What has expired stays expired. It is idempotent.
func (c *Client) DeleteRetention(ctx context.Context, user message.UserID) error {
	return c.tell(ctx, http.MethodDelete, atUser(user, "/retention"), nil, nil)
}

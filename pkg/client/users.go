package client

import (
	"context"
	"net/http"
	"time"

	"github.com/fanmail/fanmail/pkg/message"
)

// User returns what there is to know of a user. For one who was never seen, it returns a *Problem of the type
// ProblemNotFound.
func (c *Client) User(ctx context.Context, user message.UserID) (User, error) {
	path, err := userPath("user", user, "")
	if err != nil {
		return User{}, err
	}
	var got User
	err = c.do(ctx, call{method: http.MethodGet, path: path, idempotent: true, read: jsonInto(&got)})
	return got, err
}

// SetSeen records when a user was last seen. It is idempotent. The server refuses a time before the one that it
// knows, and a user who is dormant.
func (c *Client) SetSeen(ctx context.Context, user message.UserID, at time.Time) error {
	path, err := userPath("user", user, "")
	if err != nil {
		return err
	}
	body, err := encode(struct {
		LastViewed time.Time `json:"last_viewed"`
	}{at.UTC()})
	if err != nil {
		return err
	}
	return c.do(ctx, call{method: http.MethodPut, path: path, content: ContentJSON, body: body, idempotent: true})
}

// SetSeenBatch records when users were last seen, each on its own, as SetSeen does.
func (c *Client) SetSeenBatch(ctx context.Context, seen []Seen) (BatchResult, error) {
	return sendBatch(ctx, c, "/v1/users:batch", seen)
}

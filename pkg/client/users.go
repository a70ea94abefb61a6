package client

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/fanmail/fanmail/pkg/message"
)

// User returns the record of a user. If the user was never seen, it returns a *Problem of the type ProblemNotFound.
func (c *Client) User(ctx context.Context, user message.UserID) (User, error) {
	return get[User](ctx, c, atUser(user, ""), nil)
}

// Login records that a user has logged in. If the user was dormant or has no record, the server rebuilds the inbox. It waits at
// most wait for that (0 to MaxLoginWait). If the time is too short, the State of the answer is Rehydrating, the rebuild continues,
// and another Login waits for it again. Login is idempotent, except that a repeated call may return another Was.
func (c *Client) Login(ctx context.Context, user message.UserID, wait time.Duration) (Login, error) {
	to := atUser(user, "/login").within(wait, MaxLoginWait)
	return ask[Login](ctx, c, http.MethodPost, to, url.Values{"wait": {wait.String()}}, nil)
}

// within returns the target with an error if a wait is not from 0 to most.
func (t target) within(wait, most time.Duration) target {
	if wait < 0 || wait > most {
		t.err = cmp.Or(t.err, error(&message.InvalidError{Field: "wait", Reason: fmt.Sprintf("is %s: give 0s to %ds", wait, most/time.Second)}))
	}
	return t
}

// SetSeen records when a user was last seen. It is idempotent. If the user is dormant or has no record, the server rebuilds the
// inbox before it answers. The server refuses a time before the recorded one (ProblemBackwards).
func (c *Client) SetSeen(ctx context.Context, user message.UserID, at time.Time) error {
	return c.tell(ctx, http.MethodPut, atUser(user, ""), nil, struct {
		LastViewed time.Time `json:"last_viewed"`
	}{at.UTC()})
}

// SetSeenBatch records when users were last seen. It handles each user alone, like SetSeen.
func (c *Client) SetSeenBatch(ctx context.Context, seen []Seen) (BatchResult, error) {
	return sendBatch(ctx, c, "/v1/users:batch", seen)
}

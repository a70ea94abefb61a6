package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
)

// Follow makes follower follow followee from now on. It is idempotent.
func (c *Client) Follow(ctx context.Context, follower, followee message.UserID) error {
	return c.edge(ctx, http.MethodPut, follow.Pair{Follower: follower, Followee: followee.Source()})
}

// Unfollow makes follower no longer follow followee. It is idempotent.
func (c *Client) Unfollow(ctx context.Context, follower, followee message.UserID) error {
	return c.edge(ctx, http.MethodDelete, follow.Pair{Follower: follower, Followee: followee.Source()})
}

// RemoveFollower makes follower no longer follow user, as Unfollow does, with a token of user. It is idempotent.
func (c *Client) RemoveFollower(ctx context.Context, user, follower message.UserID) error {
	return c.between(ctx, http.MethodDelete, user, "/followers/", follower)
}

// Block makes user block another one: it ends the edges between the two, neither can follow the other, and later messages of the other that name
// user leave them out. It is idempotent.
func (c *Client) Block(ctx context.Context, user, other message.UserID) error {
	return c.between(ctx, http.MethodPut, user, "/blocked/", other)
}

// Unblock ends what Block has begun. The edges stay ended. It is idempotent.
func (c *Client) Unblock(ctx context.Context, user, other message.UserID) error {
	return c.between(ctx, http.MethodDelete, user, "/blocked/", other)
}

// Blocked returns the users whom a user blocks. Its arguments are those of Followers.
func (c *Client) Blocked(ctx context.Context, user message.UserID, after Cursor, limit int) (UserPage, error) {
	return get[UserPage](ctx, c, atUser(user, "/blocked"), pageQuery(after, limit))
}

func (c *Client) edge(ctx context.Context, method string, pair follow.Pair) error {
	return c.between(ctx, method, pair.Follower, "/following/", pair.Followee.Author())
}

// between sends a request about a user and another one.
func (c *Client) between(ctx context.Context, method string, user message.UserID, path string, other message.UserID) error {
	to := atUser(user, path+url.PathEscape(string(other)))
	to.err = follow.Pair{Follower: user, Followee: other.Source()}.Validate()
	return c.tell(ctx, method, to, nil, nil)
}

// Edge is a line of a batch of edges.
type Edge struct {
	Follower message.UserID `json:"follower"`
	Followee message.UserID `json:"followee"`
}

// FollowBatch makes users follow others. Each pair succeeds or fails alone. FollowBatch is idempotent: after an error the caller
// can send the batch again.
func (c *Client) FollowBatch(ctx context.Context, pairs []follow.Pair) (BatchResult, error) {
	edges := make([]Edge, len(pairs))
	for i, p := range pairs {
		edges[i] = Edge{Follower: p.Follower, Followee: p.Followee.Author()}
	}
	return sendBatch(ctx, c, "/v1/following:batch", edges)
}

func sendBatch[T any](ctx context.Context, c *Client, path string, lines []T) (BatchResult, error) {
	body, err := encodeLines(lines)
	if err != nil {
		return BatchResult{}, err
	}
	var result BatchResult
	err = c.do(ctx, call{
		method: http.MethodPost, path: path, content: ContentNDJSON, body: body, idempotent: true, read: jsonInto(&result),
	})
	return result, err
}

// Followers returns at most limit followers of a user, beginning after a cursor. An empty cursor begins the list. With limit 0 the
// server chooses the length. The order is arbitrary, but always the same.
func (c *Client) Followers(ctx context.Context, user message.UserID, after Cursor, limit int) (UserPage, error) {
	return get[UserPage](ctx, c, atUser(user, "/followers"), pageQuery(after, limit))
}

// Following returns the users that a user follows. Its arguments are those of Followers.
func (c *Client) Following(ctx context.Context, user message.UserID, after Cursor, limit int) (UserPage, error) {
	return get[UserPage](ctx, c, atUser(user, "/following"), pageQuery(after, limit))
}

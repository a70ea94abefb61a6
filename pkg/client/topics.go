package client

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/fanmail/fanmail/pkg/message"
)

// Topic is a topic in a batch or in an answer. In JSON it is a path such as news/sport.
type Topic struct {
	Topic message.Topic `json:"topic"`
}

// TopicPage is one page of a list of topics.
type TopicPage struct {
	Topics []message.Topic `json:"topics"`
	Next   Cursor          `json:"next"`
}

// Subscription is a line of a batch of subscriptions.
type Subscription struct {
	User  message.UserID `json:"user"`
	Topic message.Topic  `json:"topic"`
}

// atTopic returns the target of a topic.
func atTopic(t message.Topic) target {
	return target{"/v1/topics/" + url.PathEscape(string(t)), t.Validate("topic")}
}

// CreateTopic creates a topic. With parents set, it creates the topics above it, too. Otherwise the server refuses a topic without the one above it
// (ProblemInvalid). It is idempotent.
func (c *Client) CreateTopic(ctx context.Context, t message.Topic, parents bool) error {
	query := url.Values{}
	if parents {
		query.Set("parents", "true")
	}
	return c.tell(ctx, http.MethodPut, atTopic(t), query, nil)
}

// CreateTopicBatch creates topics in their order. Each succeeds or fails alone. It is idempotent: after an error the caller can send the batch
// again.
func (c *Client) CreateTopicBatch(ctx context.Context, all []message.Topic) (BatchResult, error) {
	lines := make([]Topic, len(all))
	for i, t := range all {
		lines[i].Topic = t
	}
	return sendBatch(ctx, c, "/v1/topics:batch", lines)
}

// Topic returns nil if a topic exists. If it does not, it returns a *Problem of the type ProblemNotFound.
func (c *Client) Topic(ctx context.Context, t message.Topic) error {
	return c.tell(ctx, http.MethodGet, atTopic(t), nil, nil)
}

// DeleteTopic deletes a topic. The server refuses that (ProblemConflict) while there are topics below it, or users are subscribed to it. It is
// idempotent.
func (c *Client) DeleteTopic(ctx context.Context, t message.Topic) error {
	return c.tell(ctx, http.MethodDelete, atTopic(t), nil, nil)
}

// Topics returns at most limit topics, beginning after a cursor: the topic under and all topics below it. An empty topic under stands for all
// topics. An empty cursor begins the list. With limit 0 the server chooses the length.
func (c *Client) Topics(ctx context.Context, under message.Topic, after Cursor, limit int) (TopicPage, error) {
	query := pageQuery(after, limit)
	if under != "" {
		query.Set("under", string(under))
	}
	return get[TopicPage](ctx, c, at("/v1/topics"), query)
}

func pageQuery(after Cursor, limit int) url.Values {
	query := url.Values{}
	if after != "" {
		query.Set("after", string(after))
	}
	if limit != 0 {
		query.Set("limit", strconv.Itoa(limit))
	}
	return query
}

// Subscribe subscribes a user to a topic from now on. It is idempotent.
func (c *Client) Subscribe(ctx context.Context, user message.UserID, t message.Topic) error {
	return c.subscription(ctx, http.MethodPut, user, t)
}

// Unsubscribe ends a user's subscription to a topic, if there is one. It is idempotent.
func (c *Client) Unsubscribe(ctx context.Context, user message.UserID, t message.Topic) error {
	return c.subscription(ctx, http.MethodDelete, user, t)
}

func (c *Client) subscription(ctx context.Context, method string, user message.UserID, t message.Topic) error {
	to := atUser(user, "/topics/"+url.PathEscape(string(t)))
	to.err = cmp.Or(to.err, t.Validate("topic"))
	return c.tell(ctx, method, to, nil, nil)
}

// SubscribeBatch subscribes users to topics. Each subscription succeeds or fails alone. It is idempotent: after an error the caller can send the
// batch again.
func (c *Client) SubscribeBatch(ctx context.Context, all []Subscription) (BatchResult, error) {
	return sendBatch(ctx, c, "/v1/subscriptions:batch", all)
}

// UserTopics returns the topics to which a user is subscribed. Its arguments are those of Topics.
func (c *Client) UserTopics(ctx context.Context, user message.UserID, after Cursor, limit int) (TopicPage, error) {
	return get[TopicPage](ctx, c, atUser(user, "/topics"), pageQuery(after, limit))
}

// Subscribers returns users who are subscribed to a topic. Its other arguments are those of Followers.
func (c *Client) Subscribers(ctx context.Context, t message.Topic, after Cursor, limit int) (UserPage, error) {
	query := pageQuery(after, limit)
	query.Set("topic", string(t))
	return get[UserPage](ctx, c, target{"/v1/subscriptions", t.Validate("topic")}, query)
}

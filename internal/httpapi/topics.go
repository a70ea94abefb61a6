package httpapi

import (
	"context"
	"net/http"
	"net/url"

	"github.com/fanmail/fanmail/internal/topics"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

// pathTopic returns the topic in the path. Its segments are separated by / or %2F.
func pathTopic(r *http.Request) (message.Topic, error) {
	t := message.Topic(r.PathValue("topic"))
	return t, t.Validate("topic")
}

// queryTopic returns the topic in a query parameter, or the empty topic if the parameter is missing.
func queryTopic(query url.Values, name string) (message.Topic, error) {
	if !query.Has(name) {
		return "", nil
	}
	t := message.Topic(query.Get(name))
	return t, t.Validate(name)
}

func (s *server) topic(w *response, r *http.Request, t message.Topic) error {
	if err := s.Topics.Get(r.Context(), t); err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, client.ContentJSON, client.Topic{Topic: t})
}

func (s *server) createTopic(w *response, r *http.Request, t message.Topic) error {
	parents, err := queryFlag(r.URL.Query(), "parents")
	if err != nil {
		return err
	}
	created, err := s.Topics.Create(r.Context(), t, parents)
	if err != nil {
		return err
	}
	if created {
		w.WriteHeader(http.StatusCreated)
		return nil
	}
	return noContent(w)
}

func (s *server) deleteTopic(w *response, r *http.Request, t message.Topic) error {
	return done(w, s.Topics.Delete(r.Context(), t))
}

func (s *server) createTopicBatch(w *response, r *http.Request) error {
	decode := func(line client.Topic) (message.Topic, error) { return line.Topic, line.Topic.Validate("topic") }
	return handleBatch(s, w, r, decode, func(all []message.Topic) ([]error, error) { return s.Topics.CreateAll(r.Context(), all) })
}

// topicPage answers with the page of a list of topics that begins after the topic in the query.
func topicPage[T any](
	s *server, w *response, r *http.Request, of T,
	list func(ctx context.Context, of T, after message.Topic, limit int) ([]message.Topic, message.Topic, error),
) error {
	query := r.URL.Query()
	limit, err := s.pageSize(query)
	if err != nil {
		return err
	}
	after, err := queryTopic(query, "after")
	if err != nil {
		return err
	}
	all, next, err := list(r.Context(), of, after, limit)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, client.ContentJSON, client.TopicPage{Topics: all, Next: client.Cursor(string(next))})
}

func (s *server) listTopics(w *response, r *http.Request) error {
	under, err := queryTopic(r.URL.Query(), "under")
	if err != nil {
		return err
	}
	return topicPage(s, w, r, under, s.Topics.List)
}

func (s *server) userTopics(w *response, r *http.Request, user message.UserID) error {
	return topicPage(s, w, r, user, s.Topics.Topics)
}

// pathSubscription returns the user and the topic in the path.
func pathSubscription(r *http.Request) (topics.Subscription, error) {
	user, err := pathUser(r)
	if err != nil {
		return topics.Subscription{}, err
	}
	t, err := pathTopic(r)
	return topics.Subscription{User: user, Topic: t}, err
}

func (s *server) subscribe(w *response, r *http.Request, sub topics.Subscription) error {
	if err := w.maySubscribe(sub.Topic); err != nil {
		return err
	}
	errs, err := s.Topics.Subscribe(r.Context(), []topics.Subscription{sub})
	if err != nil {
		return err
	}
	if errs[0] != nil {
		return errs[0]
	}
	return done(w, s.Following.Seen(r.Context(), sub.User))
}

func (s *server) unsubscribe(w *response, r *http.Request, sub topics.Subscription) error {
	return done(w, s.Topics.Unsubscribe(r.Context(), sub))
}

func (s *server) subscribeBatch(w *response, r *http.Request) error {
	decode := func(line client.Subscription) (topics.Subscription, error) {
		sub := topics.Subscription(line)
		if err := sub.User.Validate("user"); err != nil {
			return sub, err
		}
		if err := sub.Topic.Validate("topic"); err != nil {
			return sub, err
		}
		if err := w.maySubscribe(sub.Topic); err != nil {
			return sub, err
		}
		return sub, s.mayAdd(w, "user", sub.User)
	}
	return handleBatch(s, w, r, decode, func(all []topics.Subscription) ([]error, error) { return s.Topics.Subscribe(r.Context(), all) })
}

func (s *server) subscribers(w *response, r *http.Request) error {
	t := message.Topic(r.URL.Query().Get("topic"))
	if err := t.Validate("topic"); err != nil {
		return err
	}
	return userPage(s, w, r, t, s.Topics.Subscribers)
}

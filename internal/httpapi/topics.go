package httpapi

import (
	"net/http"

	"github.com/fanmail/fanmail/internal/topics"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

// pathTopic returns the topic in the path. Its segments are separated by / or %2F.
func pathTopic(r *http.Request) (message.Topic, error) {
	t := message.Topic(r.PathValue("topic"))
	return t, t.Validate("topic")
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

func topicPage(all []message.Topic, next client.Cursor) client.TopicPage {
	return client.TopicPage{Topics: all, Next: next}
}

func (s *server) listTopics(w *response, r *http.Request) error {
	query := r.URL.Query()
	under := message.Topic(query.Get("under"))
	if query.Has("under") {
		if err := under.Validate("under"); err != nil {
			return err
		}
	}
	return listPage(s, w, r, under, s.Topics.List, topicPage)
}

func (s *server) userTopics(w *response, r *http.Request, user message.UserID) error {
	return listPage(s, w, r, user, s.Topics.Topics, topicPage)
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
	return listPage(s, w, r, t, s.Topics.Subscribers, userPage)
}

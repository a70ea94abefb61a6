package httpapi

import (
	"net/http"
	"time"

	"github.com/fanmail/fanmail/internal/duration"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// userRetention tells what a user's own retention is. It is empty for a user without one.
func (s *server) userRetention(w *response, r *http.Request, user message.UserID) error {
	keep, err := s.Inbox.Retention(r.Context(), user)
	if err != nil {
		return err
	}
	answer := client.Retention{Newest: keep.Newest}
	if keep.MaxAge > 0 {
		answer.MaxAge = duration.Text(keep.MaxAge)
	}
	return writeJSON(w, http.StatusOK, client.ContentJSON, answer)
}

func (s *server) setRetention(w *response, r *http.Request, user message.UserID) (err error) {
	var body struct {
		MaxAge *string `json:"max_age"`
		Newest *int64  `json:"newest"`
	}
	if err := readObject(w, r, smallBytes, &body); err != nil {
		return err
	}
	var keep userstate.Retention
	if body.MaxAge != nil {
		if keep.MaxAge, err = parseAge("max_age", *body.MaxAge); err != nil {
			return err
		}
	}
	if body.Newest != nil {
		if keep.Newest = *body.Newest; keep.Newest < 1 {
			return &message.InvalidError{Field: "newest", Reason: "is less than 1: leave it out to keep all"}
		}
	}
	return done(w, s.Inbox.SetRetention(r.Context(), user, keep))
}

func (s *server) deleteRetention(w *response, r *http.Request, user message.UserID) error {
	return done(w, s.Inbox.DeleteRetention(r.Context(), user))
}

// parseAge parses an age, which is above 0.
func parseAge(field, text string) (time.Duration, error) {
	age, err := duration.Parse(text)
	switch {
	case err != nil:
		return 0, &message.InvalidError{Field: field, Reason: "is not a duration such as 720h or 30d"}
	case age <= 0:
		return 0, &message.InvalidError{Field: field, Reason: "is not above 0: leave it out to keep messages of any age"}
	}
	return age, nil
}

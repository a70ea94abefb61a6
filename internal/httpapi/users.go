package httpapi

import (
	"net/http"
	"time"

	"github.com/fanmail/fanmail/internal/inbox"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

func (s *server) user(w *response, r *http.Request, user message.UserID) error {
	got, err := s.Inbox.User(r.Context(), user)
	if err != nil {
		return err
	}
	state := client.Dormant
	switch {
	case got.State.Rehydrating():
		state = client.Rehydrating
	case got.Active:
		state = client.Active
	}
	return writeJSON(w, http.StatusOK, client.ContentJSON, client.User{
		User: user, State: state, LastViewed: client.Time{Time: got.State.LastViewed}, Total: got.Total,
	})
}

func (s *server) setSeen(w *response, r *http.Request, user message.UserID) error {
	var body struct {
		LastViewed string `json:"last_viewed"`
	}
	if err := readObject(w, r, smallBytes, &body); err != nil {
		return err
	}
	at, err := parseTime("last_viewed", body.LastViewed)
	if err != nil {
		return err
	}
	errs, err := s.Inbox.SetSeen(r.Context(), []inbox.Seen{{User: user, At: at}})
	if err != nil {
		return err
	}
	if errs[0] != nil {
		return errs[0]
	}
	return noContent(w)
}

func (s *server) setSeenBatch(w *response, r *http.Request) error {
	type seen struct {
		User       message.UserID `json:"user"`
		LastViewed string         `json:"last_viewed"`
	}
	decode := func(line seen) (inbox.Seen, error) {
		if err := line.User.Validate("user"); err != nil {
			return inbox.Seen{}, err
		}
		at, err := parseTime("last_viewed", line.LastViewed)
		return inbox.Seen{User: line.User, At: at}, err
	}
	return handleBatch(s, w, r, decode, func(seen []inbox.Seen) ([]error, error) {
		return s.Inbox.SetSeen(r.Context(), seen)
	})
}

// parseTime parses an RFC 3339 time.
func parseTime(field, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, &message.InvalidError{Field: field, Reason: "is missing: give a time such as 2026-01-02T15:04:05.000Z"}
	}
	at, err := message.ParseTime(text)
	if err != nil {
		return at, &message.InvalidError{Field: field, Reason: err.Error()}
	}
	return at, nil
}

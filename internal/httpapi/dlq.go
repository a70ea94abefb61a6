package httpapi

import (
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
)

func (s *server) deadLetters(w *response, r *http.Request) error {
	query := r.URL.Query()
	limit, err := s.pageSize(query)
	if err != nil {
		return err
	}
	var after uint64
	if query.Has("after") {
		if after, err = strconv.ParseUint(query.Get("after"), 10, 64); err != nil {
			return &message.InvalidError{Field: "after", Reason: "is not the id of a dead letter: take the next of a page as it is"}
		}
	}
	filed, err := s.DeadLetters.List(r.Context(), after, limit)
	if err != nil {
		return err
	}
	page := client.DeadLetterPage{Letters: make([]client.DeadLetter, len(filed))}
	for i, f := range filed {
		page.Letters[i] = deadLetter(f)
	}
	if len(filed) == limit {
		page.Next = filed[limit-1].ID
	}
	return writeJSON(w, http.StatusOK, client.ContentJSON, page)
}

func deadLetter(f event.Filed) client.DeadLetter {
	letter := client.DeadLetter{
		ID: f.ID, At: client.Time{Time: f.At}, Reason: f.Reason, Error: f.Error, Attempts: f.Attempts, Subject: f.Subject, Cut: f.Cut,
	}
	if utf8.Valid(f.Payload) {
		letter.Payload = string(f.Payload)
	} else {
		letter.PayloadBytes = f.Payload
	}
	if task, err := event.DecodeTask(f.Payload); err == nil {
		letter.Message, letter.From = &task.ID, task.From
	} else if published, err := event.DecodePublished(f.Payload); err == nil {
		letter.Message, letter.From = &published.ID, published.From
	} else if login, err := event.DecodeLogin(f.Payload); err == nil {
		letter.User = login.User
	}
	return letter
}

// redriveSuffix follows the id in the path that redrives a dead letter.
const redriveSuffix = ":redrive"

func (s *server) redrive(w *response, r *http.Request) error {
	text, ok := strings.CutSuffix(r.PathValue("id"), redriveSuffix)
	if !ok {
		return refuse(client.ProblemNotFound, "", "there is nothing to post at this path: a dead letter is redriven at /v1/admin/dlq/{id}%s", redriveSuffix)
	}
	id, err := parseDeadLetterID(text)
	if err != nil {
		return err
	}
	return done(w, s.DeadLetters.Redrive(r.Context(), id))
}

func (s *server) drop(w *response, r *http.Request) error {
	id, err := parseDeadLetterID(r.PathValue("id"))
	if err != nil {
		return err
	}
	return done(w, s.DeadLetters.Drop(r.Context(), id))
}

func parseDeadLetterID(text string) (uint64, error) {
	id, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, &message.InvalidError{Field: "id", Reason: "is not the id of a dead letter: give a number that the list shows"}
	}
	return id, nil
}

package httpapi

import (
	"net/http"

	"github.com/fanmail/fanmail/pkg/client"
)

// condition is the answer to a question after the server's health.
type condition struct {
	Status string `json:"status"`
}

// health answers that the process is alive, whatever else is the matter: restarting it would not help.
func (s *server) health(w *response, _ *http.Request) error {
	return writeJSON(w, http.StatusOK, client.ContentJSON, condition{Status: "ok"})
}

// ready answers whether requests can be served at the moment.
func (s *server) ready(w *response, r *http.Request) error {
	if err := s.Ready(r.Context()); err != nil {
		return refuse(client.ProblemUnavailable, "", "the server is not ready: %v", err)
	}
	return writeJSON(w, http.StatusOK, client.ContentJSON, condition{Status: "ready"})
}

func (s *server) metrics(w *response, r *http.Request) error {
	s.Metrics.ServeHTTP(w, r)
	return nil
}

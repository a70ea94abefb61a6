package httpapi

import (
	"net/http"
	"strings"

	"github.com/fanmail/fanmail/pkg/client"
)

// condition is the answer to a question after the server's health.
type condition struct {
	Status string `json:"status"`
	// Limited is why some requests are refused, though most are served.
	Limited []client.Reason `json:"limited,omitempty"`
}

// health answers that the process is alive, whatever else is the matter: restarting it would not help.
func (s *server) health(w *response, _ *http.Request) error {
	return writeJSON(w, http.StatusOK, client.ContentJSON, condition{Status: "ok"})
}

// ready answers whether requests should be sent here at the moment. A disk that is nearly full is no reason against it: inboxes are
// still served, and whoever publishes is told.
func (s *server) ready(w *response, r *http.Request) error {
	if reasons := s.Ready(r.Context()); len(reasons) > 0 {
		return notReady(reasons)
	}
	now := condition{Status: "ready"}
	if s.full() {
		now.Limited = []client.Reason{{Name: client.ReasonDisk, Detail: "the disk is nearly full: messages and edges are refused"}}
	}
	return writeJSON(w, http.StatusOK, client.ContentJSON, now)
}

// notReady returns a problem that lists all reasons.
func notReady(reasons []client.Reason) *client.Problem {
	details := make([]string, len(reasons))
	for i, reason := range reasons {
		details[i] = reason.Detail
	}
	p := newProblem(client.ProblemUnavailable, "", "the server is not ready: "+strings.Join(details, "; "))
	p.Reasons = reasons
	return p
}

func (s *server) metrics(w *response, r *http.Request) error {
	s.Metrics.ServeHTTP(w, r)
	return nil
}

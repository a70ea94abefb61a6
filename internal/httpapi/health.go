package httpapi

import (
	"net/http"
	"slices"
	"strings"

	"github.com/fanmail/fanmail/pkg/client"
)

// condition is the answer of /healthz and /readyz.
type condition struct {
	Status string `json:"status"`
	// Limited has the reasons why the server refuses or delays some work.
	Limited []client.Reason `json:"limited,omitempty"`
}

// health answers that the process is alive, also if the store or the bus is down, because a restart would not help.
func (s *server) health(w *response, _ *http.Request) error {
	return writeJSON(w, http.StatusOK, client.ContentJSON, condition{Status: "ok"})
}

// ready answers whether this process should receive requests now. With a nearly full disk it is ready, because it still serves
// inboxes and refuses messages with a reason. It is also ready without a part that it does not need for its own work.
func (s *server) ready(w *response, r *http.Request) error {
	reasons, limited := s.Ready(r.Context())
	if len(reasons) > 0 {
		if slices.ContainsFunc(reasons, func(reason client.Reason) bool { return reason.Name == client.ReasonStopping }) {
			w.Header().Set("Connection", "close") // the request may have begun before the server stopped keeping connections
		}
		return notReady(reasons)
	}
	now := condition{Status: "ready", Limited: limited}
	if s.full() {
		now.Limited = append(now.Limited, client.Reason{Name: client.ReasonDisk, Detail: "the disk is nearly full: messages and edges are refused"})
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

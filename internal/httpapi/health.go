package httpapi

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

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
	if w.gone() { // the store was not asked to the end
		return context.Cause(r.Context())
	}
	s.noteReadiness(reasons)
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

// readiness is what the log says of whether the process is ready.
type readiness struct {
	mu sync.Mutex
	// missing are the reasons of the line that said that the process is not ready; empty if it is ready.
	missing []client.ReasonName
	since   time.Time
}

// noteReadiness logs when the process is no longer ready, and when it is ready again, but not the answers between: monitoring asks every few
// seconds. The log of a process that starts or stops says so by itself.
func (s *server) noteReadiness(reasons []client.Reason) {
	var missing []client.ReasonName
	details := make([]string, 0, len(reasons))
	for _, reason := range reasons {
		if reason.Name == client.ReasonStarting || reason.Name == client.ReasonStopping {
			return
		}
		missing, details = append(missing, reason.Name), append(details, reason.Detail)
	}
	s.readiness.mu.Lock()
	defer s.readiness.mu.Unlock()
	was := s.readiness.missing
	switch {
	case len(was) == 0 && len(missing) > 0:
		s.readiness.missing, s.readiness.since = missing, s.opts.Now()
		s.opts.Logger.Warn().Any("missing", missing).Strs("details", details).
			Msg("this process is not ready: /readyz answers 503 until what is missing is back")
	case len(was) > 0 && len(missing) == 0:
		s.readiness.missing = nil
		s.opts.Logger.Info().Any("missing", was).Stringer("took", s.opts.Now().Sub(s.readiness.since).Round(time.Millisecond)).
			Msg("this process is ready again")
	}
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

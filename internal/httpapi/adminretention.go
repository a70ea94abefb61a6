package httpapi

import (
	"net/http"

	"github.com/fanmail/fanmail/internal/overview"
	"github.com/fanmail/fanmail/pkg/client"
)

// retention tells how far messages have expired.
func (s *server) retention(w *response, r *http.Request) error {
	status, err := s.Retention.Status(r.Context())
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, client.ContentJSON, overview.Retention(status))
}

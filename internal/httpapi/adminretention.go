package httpapi

import (
	"net/http"

	"github.com/fanmail/fanmail/pkg/client"
)

// retention tells how far messages have expired.
func (s *server) retention(w *response, r *http.Request) error {
	status, err := s.Retention.Status(r.Context())
	if err != nil {
		return err
	}
	result := client.RetentionStatus{Rate: status.Rate, BytesFreed: status.Freed}
	if status.Walked {
		lowWater, overdue := status.LowWater, status.Overdue.String()
		result.LowWater, result.OldestOverdue = &lowWater, &overdue
	}
	return writeJSON(w, http.StatusOK, client.ContentJSON, result)
}

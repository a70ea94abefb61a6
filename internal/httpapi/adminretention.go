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
	var result client.RetentionStatus
	if !status.AsOf.IsZero() {
		result.AsOf = &status.AsOf
	}
	if status.Walked {
		lowWater, overdue := status.LowWater, status.Overdue.String()
		lowWater[6], lowWater[8] = 0x7f, 0xbf // the greatest UUID of version 7 that is not above: clients take no other
		result.LowWater, result.OldestOverdue = &lowWater, &overdue
	}
	return writeJSON(w, http.StatusOK, client.ContentJSON, result)
}

package httpapi

import (
	"net/http"

	"github.com/fanmail/fanmail/pkg/client"
)

func (s *server) overview(w *response, r *http.Request) error {
	return writeJSON(w, http.StatusOK, client.ContentJSON, s.Overview.Overview(r.Context()))
}

func (s *server) dormancy(w *response, r *http.Request) error {
	dormancy, err := s.Overview.Dormancy(r.Context())
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, client.ContentJSON, dormancy)
}

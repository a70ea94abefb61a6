package httpapi

import (
	"net/http"

	"github.com/fanmail/fanmail/api"
	"github.com/fanmail/fanmail/pkg/client"
)

// openapi answers with the OpenAPI document of all roles.
func (s *server) openapi(w *response, _ *http.Request) error {
	w.Header().Set("Content-Type", client.ContentJSON)
	_, _ = w.Write(api.OpenAPI()) // an error means that the client is gone
	return nil
}

package httpapi

import (
	"net/http"

	"github.com/fanmail/fanmail/api"
	"github.com/fanmail/fanmail/pkg/client"
)

// openapi answers with the description of all paths, those of other roles included.
func (s *server) openapi(w *response, _ *http.Request) error {
	w.Header().Set("Content-Type", client.ContentJSON)
	_, _ = w.Write(api.OpenAPI()) // an error means that the client is gone
	return nil
}

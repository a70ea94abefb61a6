package httpapi

import (
	"net/http"
	"slices"
)

// shared answers the questions that a browser asks before and about requests of pages of other origins (the CORS protocol of the Fetch standard), and
// reports whether that was all. Pages of an origin that is not configured get no answer, so their browser refuses.
func (s *server) shared(w http.ResponseWriter, r *http.Request) bool {
	if len(s.opts.Origins) == 0 {
		return false
	}
	h := w.Header()
	h.Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	if !slices.Contains(s.opts.Origins, origin) {
		return false
	}
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", "ETag, Retry-After, X-Request-Id")
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	h.Set("Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, DELETE")
	h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Idempotency-Key, If-None-Match, Last-Event-ID")
	h.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
	return true
}

// sites returns what refuses requests from pages of other origins than the configured ones.
func sites(origins []string) *http.CrossOriginProtection {
	p := http.NewCrossOriginProtection()
	for _, origin := range origins {
		if err := p.AddTrustedOrigin(origin); err != nil {
			panic(err) // the configuration has checked it
		}
	}
	return p
}

package httpapi

import "net/http"

// ProblemOf is what decides over every error's problem document.
var ProblemOf = problemOf

// Endpoints returns every endpoint of a handler as "METHOD pattern", and whether everybody may use it and whether it is for the
// user that the path names.
func Endpoints(h http.Handler) map[string]struct{ Open, Own bool } {
	all := make(map[string]struct{ Open, Own bool })
	for pattern, m := range h.(*server).routed {
		for method, e := range m {
			all[method+" "+pattern] = struct{ Open, Own bool }{Open: e.access.open, Own: e.access.own}
		}
	}
	return all
}

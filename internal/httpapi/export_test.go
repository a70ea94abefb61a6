package httpapi

import (
	"net/http"
	"strings"
)

// ProblemOf is what decides over every error's problem document.
var ProblemOf = problemOf

// Kinds are the types of problems.
var Kinds = kinds

// Endpoint is what tests have to know of an endpoint: whether everybody may use it or else which scopes may, whether it is for the
// user that the path names, and the query parameters that it takes.
type Endpoint struct {
	Open, Own     bool
	Scopes, Query []string
}

// Endpoints returns every endpoint of a handler by "METHOD pattern".
func Endpoints(h http.Handler) map[string]Endpoint {
	all := make(map[string]Endpoint)
	for pattern, m := range h.(*server).routed {
		for method, e := range m {
			all[method+" "+pattern] = Endpoint{
				Open: e.access.open, Own: e.access.own, Scopes: strings.Fields(scopeList(e.access.needed())), Query: e.query,
			}
		}
	}
	return all
}

package httpapi

import "net/http"

// ProblemOf is what decides over every error's problem document.
var ProblemOf = problemOf

// Kinds are the types of problems.
var Kinds = kinds

// Queries returns the query parameters of every endpoint of a handler, by "METHOD pattern".
func Queries(h http.Handler) map[string][]string {
	all := make(map[string][]string)
	for pattern, m := range h.(*server).routed {
		for method, e := range m {
			all[method+" "+pattern] = e.query
		}
	}
	return all
}

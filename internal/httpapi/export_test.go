package httpapi

import (
	"net/http"
	"strings"
)

// ProblemOf returns the problem document of an error.
var ProblemOf = problemOf

// Page and Tokens are what the tests of Memory see of it: a page of a token, and how many tokens have one.
var Page = (*Memory).page

func Tokens(m *Memory) int { return len(m.tokens) }

// Kinds has the status and the title of each type of problem.
var Kinds = kinds

// Endpoint is the part of an endpoint that tests check. Open means that it needs no token, Own that the token must belong to the
// user in the path.
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

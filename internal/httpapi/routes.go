package httpapi

import (
	"net/http"

	"github.com/fanmail/fanmail/pkg/client"
)

func (s *server) routes() {
	publisher := role{server: s, name: "publisher", here: s.Publish != nil}
	publisher.route("/v1/messages", methods{
		http.MethodPost: {handle: s.publish, body: true, adds: true},
	})
	publisher.route("/v1/messages:batch", methods{
		http.MethodPost: {handle: s.publishBatch, body: true, adds: true},
	})
	publisher.route("/v1/messages/{id}", methods{
		http.MethodGet: {handle: s.status, query: []string{"estimate"}},
	})
	publisher.route("/v1/following:batch", methods{
		http.MethodPost: {handle: s.followBatch, body: true, adds: true},
	})
	publisher.route("/v1/users/{user}/followers", methods{
		http.MethodGet: {handle: s.followers, query: []string{"after", "limit"}},
	})
	publisher.route("/v1/users/{user}/following", methods{
		http.MethodGet: {handle: s.following, query: []string{"after", "limit"}},
	})
	publisher.route("/v1/users/{user}/following/{followee}", methods{
		http.MethodPut:    {handle: s.follow, adds: true},
		http.MethodDelete: {handle: s.unfollow},
	})
	rehydrator := role{server: s, name: "rehydrator", here: s.Inbox != nil}
	rehydrator.route("/v1/users:batch", methods{
		http.MethodPost: {handle: s.setSeenBatch, body: true},
	})
	rehydrator.route("/v1/users/{user}", methods{
		http.MethodGet: {handle: s.user},
		http.MethodPut: {handle: s.setSeen, body: true},
	})
	rehydrator.route("/v1/users/{user}/login", methods{
		http.MethodPost: {handle: s.login, query: []string{"wait"}},
	})
	rehydrator.route("/v1/users/{user}/inbox", methods{
		http.MethodGet: {handle: s.inbox, query: []string{"before", "limit", "peek"}},
	})
	rehydrator.route("/v1/users/{user}/inbox/read", methods{
		http.MethodPost: {handle: s.markRead, body: true},
	})
	rehydrator.route("/v1/users/{user}/inbox/{id}", methods{
		http.MethodDelete: {handle: s.deleteEntry},
	})
	admin := role{server: s, name: "rehydrator", here: s.Audit != nil}
	admin.route("/v1/admin/explain", methods{
		http.MethodGet: {handle: s.explain, query: []string{"user", "message"}},
	})
	admin.route("/v1/admin/audit", methods{
		http.MethodPost: {handle: s.audit, query: []string{"user", "sample", "repair"}, body: true},
	})
	admin.route("/v1/admin/dlq", methods{
		http.MethodGet: {handle: s.deadLetters, query: []string{"after", "limit"}},
	})
	admin.route("/v1/admin/dlq/{id}", methods{
		http.MethodPost:   {handle: s.redrive},
		http.MethodDelete: {handle: s.drop},
	})
	s.route("/healthz", methods{http.MethodGet: {handle: s.health}})
	s.route("/readyz", methods{http.MethodGet: {handle: s.ready}})
	s.route("/openapi.json", methods{http.MethodGet: {handle: s.openapi}})
	if s.Metrics != nil {
		s.route("/metrics", methods{http.MethodGet: {handle: s.metrics}})
	}
	s.mux.Handle("/", s.serve(nil))
}

// role is a share of the paths, which a process serves all or none of.
type role struct {
	server *server
	name   string
	here   bool
}

// route serves a path, or says who does.
func (r role) route(pattern string, m methods) {
	if r.here {
		r.server.route(pattern, m)
		return
	}
	r.server.mux.Handle(pattern, http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		w := rw.(*response) //nolint:forcetypeassert // ServeHTTP hands nothing else to the mux
		r.server.fail(w, refuse(client.ProblemNotFound, "", "this process does not serve this path: the %s does", r.name))
	}))
}

package httpapi

import (
	"net/http"

	"github.com/fanmail/fanmail/pkg/client"
)

func (s *server) routes() {
	publisher := role{server: s, name: "publisher", here: s.Publish != nil}
	draft := int64(draftBytes(s.opts.Limits))
	reporter := role{server: s, name: publisher.name, here: s.Reporter != nil}
	publish := endpoint{handle: s.publish, access: publishers, body: true, adds: true, memory: draftCopies * draft}
	if !publisher.here {
		publish = endpoint{handle: publisher.elsewhere, access: open}
	}
	reporter.route("/v1/messages", methods{
		http.MethodGet:  {handle: s.listMessages, access: listers, query: []string{"after", "from", "limit", "state"}, memory: messageMemory},
		http.MethodPost: publish,
	})
	publisher.route("/v1/messages:batch", methods{
		http.MethodPost: {handle: s.publishBatch, access: publishers, body: true, adds: true, memory: draftCopies * (chunkBytes + draft)},
	})
	reporter.route("/v1/messages/{id}", methods{
		http.MethodGet: {handle: s.status, access: ofMessage, query: []string{"estimate", "partitions"}, memory: messageMemory},
	})
	publisher.route("/v1/following:batch", methods{
		http.MethodPost: {handle: s.followBatch, access: readers, body: true, adds: true},
	})
	publisher.route("/v1/users/{user}/followers", methods{
		http.MethodGet: {handle: forUser(s.followers), access: owner, query: []string{"after", "limit"}},
	})
	publisher.route("/v1/users/{user}/following", methods{
		http.MethodGet: {handle: forUser(s.following), access: owner, query: []string{"after", "limit"}},
	})
	publisher.route("/v1/users/{user}/following/{followee}", methods{
		http.MethodPut:    {handle: given(pathPair("user", "followee"), s.follow), access: owner, adds: true},
		http.MethodDelete: {handle: given(pathPair("user", "followee"), s.unfollow), access: owner},
	})
	publisher.route("/v1/users/{user}/followers/{follower}", methods{
		http.MethodDelete: {handle: given(pathPair("follower", "user"), s.unfollow), access: owner},
	})
	publisher.route("/v1/users/{user}/blocked", methods{
		http.MethodGet: {handle: forUser(s.blocked), access: owner, query: []string{"after", "limit"}},
	})
	publisher.route("/v1/users/{user}/blocked/{other}", methods{
		http.MethodPut:    {handle: given(pathPair("user", "other"), s.block), access: owner, adds: true},
		http.MethodDelete: {handle: given(pathPair("user", "other"), s.unblock), access: owner},
	})
	publisher.route("/v1/identities/{kind}/{value}", methods{
		http.MethodGet:    {handle: s.identity, access: admins},
		http.MethodPut:    {handle: s.setIdentity, access: admins, body: true, adds: true},
		http.MethodDelete: {handle: s.deleteIdentity, access: admins, query: []string{"user"}},
	})
	publisher.route("/v1/identities:lookup", methods{
		http.MethodPost: {handle: s.lookupIdentity, access: admins, body: true},
	})
	publisher.route("/v1/identities:batch", methods{
		http.MethodPost: {handle: s.setIdentityBatch, access: admins, body: true, adds: true},
	})
	publisher.route("/v1/users/{user}/identities", methods{
		http.MethodGet: {handle: forUser(s.identities), access: owner},
	})
	s.topicRoutes(publisher)
	rehydrator := role{server: s, name: "rehydrator", here: s.Inbox != nil}
	rehydrator.route("/v1/users:batch", methods{
		http.MethodPost: {handle: s.setSeenBatch, access: admins, body: true},
	})
	rehydrator.route("/v1/inboxes:counts", methods{
		http.MethodPost: {handle: s.counts, access: readers, body: true},
	})
	rehydrator.route("/v1/users/{user}", methods{
		http.MethodGet: {handle: forUser(s.user), access: owner},
		http.MethodPut: {handle: forUser(s.setSeen), access: admins, body: true},
	})
	rehydrator.route("/v1/users/{user}/login", methods{
		http.MethodPost: {handle: forUser(s.login), access: owner, query: []string{"wait"}},
	})
	rehydrator.route("/v1/users/{user}/inbox", methods{
		http.MethodGet: {
			handle: forUser(s.inbox), access: owner, repeated: []string{"attr"},
			query: []string{"archived", "attr", "before", "from", "limit", "peek", "since", "unread", "until"}, memory: pageMemory,
		},
	})
	rehydrator.route("/v1/users/{user}/inbox/counts", methods{
		http.MethodGet: {handle: forUser(s.countInbox), access: owner, query: []string{"by"}, memory: pageMemory},
	})
	rehydrator.route("/v1/users/{user}/inbox/changes", methods{
		http.MethodGet: {handle: forUser(s.changes), access: owner, query: []string{"cursor", "peek", "wait"}},
	})
	rehydrator.route("/v1/users/{user}/inbox/events", methods{
		http.MethodGet: {handle: forUser(s.events), access: owner, query: []string{"cursor", "peek"}},
	})
	rehydrator.route("/v1/users/{user}/inbox/read", methods{
		http.MethodPost: {handle: forUser(s.markRead), access: owner, body: true},
	})
	rehydrator.route("/v1/users/{user}/inbox/seen", methods{
		http.MethodPost: {handle: forUser(s.markSeen), access: owner, body: true},
	})
	rehydrator.route("/v1/users/{user}/inbox:mark", methods{
		http.MethodPost: {handle: forUser(s.mark), access: owner, body: true},
	})
	rehydrator.route("/v1/users/{user}/inbox:purge", methods{
		http.MethodPost: {handle: forUser(s.purge), access: owner, body: true},
	})
	rehydrator.route("/v1/users/{user}/retention", methods{
		http.MethodGet:    {handle: forUser(s.userRetention), access: admins},
		http.MethodPut:    {handle: forUser(s.setRetention), access: admins, body: true},
		http.MethodDelete: {handle: forUser(s.deleteRetention), access: admins},
	})
	rehydrator.route("/v1/users/{user}/inbox/{id}", methods{
		http.MethodDelete: {handle: forUser(s.deleteEntry), access: owner},
	})
	admin := role{server: s, name: "rehydrator", here: s.Audit != nil}
	admin.route("/v1/admin/explain", methods{
		http.MethodGet: {handle: s.explain, access: operators, query: []string{"user", "message"}},
	})
	admin.route("/v1/admin/users/{user}/inbox:stored", methods{
		http.MethodGet: {handle: forUser(s.storedInbox), access: operators, query: []string{"before"}, memory: storedMemory},
	})
	admin.route("/v1/admin/audit", methods{
		http.MethodPost: {handle: s.audit, access: admins, body: true},
	})
	admin.route("/v1/admin/dlq", methods{
		http.MethodGet: {handle: s.deadLetters, access: operators, query: []string{"after", "limit"}},
	})
	admin.route("/v1/admin/dlq/{id}", methods{
		http.MethodPost:   {handle: s.redrive, access: admins},
		http.MethodDelete: {handle: s.drop, access: admins},
	})
	admin.route("/v1/admin/settings", methods{
		http.MethodGet: {handle: s.listSettings, access: admins},
	})
	admin.route("/v1/admin/settings/{key}", methods{
		http.MethodPut: {handle: s.changeSetting, access: admins, body: true},
	})
	admin.route("/v1/admin/attributes", methods{
		http.MethodGet: {handle: s.listAttributes, access: admins},
	})
	admin.route("/v1/admin/attributes/{name}", methods{
		http.MethodGet:    {handle: s.attribute, access: admins},
		http.MethodPut:    {handle: s.declareAttribute, access: admins, body: true},
		http.MethodDelete: {handle: s.deleteAttribute, access: admins},
	})
	admin.route("/v1/admin/processes", methods{
		http.MethodGet: {handle: s.processes, access: operators},
	})
	admin.route("/v1/admin/overview", methods{
		http.MethodGet: {handle: s.overview, access: operators},
	})
	admin.route("/v1/admin/dormancy", methods{
		http.MethodGet: {handle: s.dormancy, access: operators},
	})
	admin.route("/v1/admin/backup", methods{
		http.MethodPost: {handle: s.backup, access: admins, body: true},
	})
	admin.route("/v1/admin/retention", methods{
		http.MethodGet: {handle: s.retention, access: operators},
	})
	s.route("/healthz", methods{http.MethodGet: {handle: s.health, access: open}})
	s.route("/readyz", methods{http.MethodGet: {handle: s.ready, access: open}})
	s.route("/openapi.json", methods{http.MethodGet: {handle: s.openapi, access: open}})
	if s.Metrics != nil {
		s.route("/metrics", methods{http.MethodGet: {handle: s.metrics, access: watchers}})
	}
	if s.opts.Console != nil {
		s.measured.add(consolePath, http.MethodGet, http.MethodPost)
		s.mux.Handle(consolePath, s.console(s.opts.Console(s)))
		s.mux.Handle("GET /{$}", http.RedirectHandler(consolePath, http.StatusSeeOther)) // who types only the host looks for pages
	}
	s.mux.Handle("/", s.serve(nil))
}

func (s *server) topicRoutes(publisher role) {
	publisher.route("/v1/topics", methods{
		http.MethodGet: {handle: s.listTopics, access: eitherEnd, query: []string{"under", "after", "limit"}},
	})
	publisher.route("/v1/topics:batch", methods{
		http.MethodPost: {handle: s.createTopicBatch, access: admins, body: true, adds: true},
	})
	publisher.route("/v1/topics/{topic...}", methods{
		http.MethodGet:    {handle: given(pathTopic, s.topic), access: eitherEnd},
		http.MethodPut:    {handle: given(pathTopic, s.createTopic), access: admins, query: []string{"parents"}, adds: true},
		http.MethodDelete: {handle: given(pathTopic, s.deleteTopic), access: admins},
	})
	publisher.route("/v1/subscriptions", methods{
		http.MethodGet: {handle: s.subscribers, access: admins, query: []string{"topic", "after", "limit"}},
	})
	publisher.route("/v1/subscriptions:batch", methods{
		http.MethodPost: {handle: s.subscribeBatch, access: readers, body: true, adds: true},
	})
	publisher.route("/v1/users/{user}/topics", methods{
		http.MethodGet: {handle: forUser(s.userTopics), access: owner, query: []string{"after", "limit"}},
	})
	publisher.route("/v1/users/{user}/topics/{topic...}", methods{
		http.MethodPut:    {handle: given(pathSubscription, s.subscribe), access: owner, adds: true},
		http.MethodDelete: {handle: given(pathSubscription, s.unsubscribe), access: owner},
	})
}

// role is a set of paths. A process serves all paths of a role or none.
type role struct {
	server *server
	name   string
	here   bool
}

// route serves a path. If the process does not have the role, the path answers which role serves it.
func (r role) route(pattern string, m methods) {
	if r.here {
		r.server.route(pattern, m)
		return
	}
	r.server.mux.Handle(pattern, http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		w := rw.(*response) //nolint:forcetypeassert // ServeHTTP passes only *response to the mux
		r.server.fail(w, r.elsewhere(w, nil))
	}))
}

// elsewhere answers which role serves a path.
func (r role) elsewhere(*response, *http.Request) error {
	return refuse(client.ProblemNotFound, "", "this process does not serve this path: the %s does", r.name)
}

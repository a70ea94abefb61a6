package httpapi_test

import (
	"context"
	"crypto/rand"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/api"
	"github.com/fanmail/fanmail/internal/audit"
	"github.com/fanmail/fanmail/internal/backup"
	"github.com/fanmail/fanmail/internal/deadletter"
	"github.com/fanmail/fanmail/internal/httpapi"
	"github.com/fanmail/fanmail/internal/natsbus"
	"github.com/fanmail/fanmail/internal/natsbus/natsserver"
	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// TestEveryRoleServesTheDocument requests the document from a handler without any role.
func TestEveryRoleServesTheDocument(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	w.handler = httpapi.New(httpapi.Services{Ready: func(context.Context) (reasons, limited []client.Reason) { return nil, nil }}, httpapi.Options{Now: w.clock})
	answer := w.ask(t, http.MethodGet, "/openapi.json", "")
	require.Equal(t, http.StatusOK, answer.Code)
	require.Equal(t, client.ContentJSON, answer.Header().Get("Content-Type"))
	require.JSONEq(t, string(api.OpenAPI()), answer.Body.String())
	require.Contains(t, answer.Body.String(), `"openapi":"3.1.0"`)
}

// TestEveryEndpointIsDescribed compares the routes with the paths of the document, in both directions, including query parameters
// and scopes.
func TestEveryEndpointIsDescribed(t *testing.T) {
	t.Parallel()
	doc, err := description()
	require.NoError(t, err)
	require.True(t, doc.IsOpenAPI31OrLater())
	queries, scopes := make(map[string][]string), make(map[string][]string)
	for path, item := range doc.Paths.Map() {
		for method, operation := range item.Operations() {
			pattern, _ := strings.CutSuffix(path, ":redrive") // the suffix is a part of a segment, which the mux cannot match
			name := method + " " + pattern
			queries[name] = []string{}
			for _, p := range slices.Concat(item.Parameters, operation.Parameters) {
				if p.Value.In == "query" {
					queries[name] = append(queries[name], p.Value.Name)
				}
			}
			require.NotNil(t, operation.Security, name)
			for _, one := range *operation.Security {
				scopes[name] = append(scopes[name], one["bearer"]...)
			}
		}
	}
	routed := make(map[string]httpapi.Endpoint)
	for name, endpoint := range httpapi.Endpoints(everything(t, newWorld(t, settings{})).handler) {
		routed[strings.ReplaceAll(name, "...", "")] = endpoint
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(queries)), slices.Collect(maps.Keys(routed)))
	for name, endpoint := range routed {
		require.ElementsMatch(t, queries[name], endpoint.Query, name)
		require.ElementsMatch(t, scopes[name], endpoint.Scopes, name)
	}
}

// TestEveryProblemIsDescribed compares the types of problems with those in the document.
func TestEveryProblemIsDescribed(t *testing.T) {
	t.Parallel()
	doc, err := description()
	require.NoError(t, err)
	var known []any
	for problem := range httpapi.Kinds {
		known = append(known, string(problem))
	}
	require.ElementsMatch(t, known, doc.Components.Schemas["Problem"].Value.Properties["type"].Value.Enum)
}

// TestEveryOperation calls every operation, once successfully and once refused. world.ask checks requests and answers against the
// document, here and in all other tests of this package.
func TestEveryOperation(t *testing.T) {
	t.Parallel()
	w := everything(t, newWorld(t, settings{}))
	w.see(t, "ann", "bob")
	seen := make(map[string]map[bool]bool) // for each operation: true if it succeeded once, false if it was refused once
	doc, err := description()
	require.NoError(t, err)
	one, seven := messagetest.ID(1).String(), messagetest.ID(7).String()
	now := w.clock().Format(client.TimeLayout)
	dir := filepath.Join(t.TempDir(), "backup")
	published := w.must(t, http.StatusAccepted, http.MethodPost, "/v1/messages", `{"from":"ann","to":["bob"],"body":"x","attrs":{"a":1}}`)
	id := strings.Split(published, `"`)[3]
	w.deliver(t, "bob", 1, 60)
	for _, ask := range []struct {
		status               int
		operation            string
		method, target, body string
		header, value        string
	}{
		{202, "publish", "POST", "/v1/messages", `{"from":"ann","to":["bob"],"audience":"followers","body":"x","content_type":"text/plain"}`, "Idempotency-Key", "k"},
		{422, "publish", "POST", "/v1/messages", `{"from":"ann","to":["bob"],"body":"y"}`, "Idempotency-Key", "k"},
		{200, "publishBatch", "POST", "/v1/messages:batch", `{"from":"ann","to":["bob"],"body":"x"}` + "\n" + `{"from":"ann","to":[],"body":"x"}`, "", ""},
		{415, "publishBatch", "POST", "/v1/messages:batch", `x`, "Content-Type", "text/html"},
		{200, "status", "GET", "/v1/messages/" + id + "?estimate=true", "", "", ""},
		{404, "status", "GET", "/v1/messages/" + seven, "", "", ""},
		{200, "messages", "GET", "/v1/messages?from=ann&limit=1", "", "", ""},
		{200, "messages", "GET", "/v1/messages?state=done", "", "", ""},
		{422, "messages", "GET", "/v1/messages?after=x", "", "", ""},
		{200, "followBatch", "POST", "/v1/following:batch", `{"follower":"bob","followee":"ann"}` + "\n" + `{"follower":"bob","followee":"bob"}`, "", ""},
		{422, "followBatch", "POST", "/v1/following:batch?x=1", `{"follower":"bob","followee":"ann"}`, "", ""},
		{204, "follow", "PUT", "/v1/users/cid/following/ann", "", "", ""},
		{422, "follow", "PUT", "/v1/users/ann/following/ann", "", "", ""},
		{204, "unfollow", "DELETE", "/v1/users/dan/following/ann", "", "", ""},
		{422, "unfollow", "DELETE", "/v1/users/dan/following/%20", "", "", ""},
		{200, "followers", "GET", "/v1/users/ann/followers?limit=1", "", "", ""},
		{422, "followers", "GET", "/v1/users/ann/followers?limit=0", "", "", ""},
		{200, "following", "GET", "/v1/users/bob/following?after=a", "", "", ""},
		{422, "following", "GET", "/v1/users/bob/following?after=", "", "", ""},
		{204, "removeFollower", "DELETE", "/v1/users/ann/followers/bob", "", "", ""},
		{422, "removeFollower", "DELETE", "/v1/users/ann/followers/ann", "", "", ""},
		{204, "block", "PUT", "/v1/users/bob/blocked/cy", "", "", ""},
		{422, "block", "PUT", "/v1/users/bob/blocked/bob", "", "", ""},
		{200, "blocked", "GET", "/v1/users/bob/blocked?after=a&limit=1", "", "", ""},
		{422, "blocked", "GET", "/v1/users/bob/blocked?limit=0", "", "", ""},
		{204, "unblock", "DELETE", "/v1/users/bob/blocked/cy", "", "", ""},
		{422, "unblock", "DELETE", "/v1/users/bob/blocked/%20", "", "", ""},
		{204, "setIdentity", "PUT", "/v1/identities/email/bob@example.com", `{"user":"bob"}`, "", ""},
		{409, "setIdentity", "PUT", "/v1/identities/email/bob@example.com", `{"user":"ann"}`, "", ""},
		{200, "identity", "GET", "/v1/identities/email/bob@example.com", "", "", ""},
		{404, "identity", "GET", "/v1/identities/email/ann@example.com", "", "", ""},
		{200, "lookupIdentity", "POST", "/v1/identities:lookup", `{"kind":"email","value":"bob@example.com"}`, "", ""},
		{422, "lookupIdentity", "POST", "/v1/identities:lookup", `{"kind":"email","value":"bob"}`, "", ""},
		{200, "setIdentityBatch", "POST", "/v1/identities:batch", `{"kind":"handle","value":"bob","user":"bob"}`, "", ""},
		{415, "setIdentityBatch", "POST", "/v1/identities:batch", "x", "Content-Type", "text/html"},
		{200, "identities", "GET", "/v1/users/bob/identities", "", "", ""},
		{422, "identities", "GET", "/v1/users/%20/identities", "", "", ""},
		{204, "deleteIdentity", "DELETE", "/v1/identities/handle/bob?user=bob", "", "", ""},
		{422, "deleteIdentity", "DELETE", "/v1/identities/fax/bob", "", "", ""},
		{201, "createTopic", "PUT", "/v1/topics/news%2Fsport?parents=true", "", "", ""},
		{204, "createTopic", "PUT", "/v1/topics/news", "", "", ""},
		{422, "createTopic", "PUT", "/v1/topics/none%2Fsport", "", "", ""},
		{200, "createTopicBatch", "POST", "/v1/topics:batch", `{"topic":"old"}` + "\n" + `{"topic":"none/x"}`, "", ""},
		{415, "createTopicBatch", "POST", "/v1/topics:batch", `x`, "Content-Type", "text/html"},
		{200, "topic", "GET", "/v1/topics/news%2Fsport", "", "", ""},
		{404, "topic", "GET", "/v1/topics/none", "", "", ""},
		{200, "topics", "GET", "/v1/topics?under=news&after=news&limit=5", "", "", ""},
		{422, "topics", "GET", "/v1/topics?under=", "", "", ""},
		{204, "subscribe", "PUT", "/v1/users/bob/topics/news", "", "", ""},
		{422, "subscribe", "PUT", "/v1/users/bob/topics/none", "", "", ""},
		{200, "subscribeBatch", "POST", "/v1/subscriptions:batch", `{"user":"bob","topic":"news/sport"}` + "\n" + `{"user":"bob","topic":"none"}`, "", ""},
		{422, "subscribeBatch", "POST", "/v1/subscriptions:batch?x=1", `{"user":"bob","topic":"news"}`, "", ""},
		{200, "userTopics", "GET", "/v1/users/bob/topics?after=news&limit=1", "", "", ""},
		{422, "userTopics", "GET", "/v1/users/bob/topics?limit=0", "", "", ""},
		{200, "subscribers", "GET", "/v1/subscriptions?topic=news&after=a&limit=1", "", "", ""},
		{404, "subscribers", "GET", "/v1/subscriptions?topic=none", "", "", ""},
		{204, "unsubscribe", "DELETE", "/v1/users/bob/topics/news", "", "", ""},
		{422, "unsubscribe", "DELETE", "/v1/users/bob/topics/%20", "", "", ""},
		{204, "deleteTopic", "DELETE", "/v1/topics/old", "", "", ""},
		{409, "deleteTopic", "DELETE", "/v1/topics/news", "", "", ""},
		{200, "setSeenBatch", "POST", "/v1/users:batch", `{"user":"ann","last_viewed":"` + now + `"}` + "\n" + `{"user":"ann","last_viewed":"2001-01-01T00:00:00Z"}`, "", ""},
		{415, "setSeenBatch", "POST", "/v1/users:batch", `x`, "Content-Type", "text/html"},
		{200, "user", "GET", "/v1/users/bob", "", "", ""},
		{404, "user", "GET", "/v1/users/nobody", "", "", ""},
		{204, "setSeen", "PUT", "/v1/users/eve", `{"last_viewed":"` + now + `"}`, "", ""},
		{409, "setSeen", "PUT", "/v1/users/eve", `{"last_viewed":"2001-01-01T00:00:00Z"}`, "", ""},
		{200, "login", "POST", "/v1/users/bob/login?wait=1s", "", "", ""},
		{422, "login", "POST", "/v1/users/bob/login?wait=x", "", "", ""},
		{200, "inbox", "GET", "/v1/users/bob/inbox?limit=50&peek=true&since=2026-01-02T00:00:00Z&until=2100-01-02T00:00:00Z", "", "", ""},
		{200, "inbox", "GET", "/v1/users/bob/inbox?from=ann&unread=true", "", "", ""},
		{422, "inbox", "GET", "/v1/users/bob/inbox?before=x", "", "", ""},
		{200, "countBy", "GET", "/v1/users/bob/inbox/counts?by=from", "", "", ""},
		{422, "countBy", "GET", "/v1/users/bob/inbox/counts?by=to", "", "", ""},
		{200, "countInboxes", "POST", "/v1/inboxes:counts", `{"users":["bob","nobody","bob"]}`, "", ""},
		{422, "countInboxes", "POST", "/v1/inboxes:counts", `{"users":["bob",""]}`, "", ""},
		{200, "changes", "GET", "/v1/users/bob/inbox/changes?peek=true&wait=1ms", "", "", ""},
		{422, "changes", "GET", "/v1/users/bob/inbox/changes?wait=2h", "", "", ""},
		{200, "events", "HEAD", "/v1/users/bob/inbox/events?peek=true", "", "", ""},
		{422, "events", "GET", "/v1/users/bob/inbox/events?cursor=x", "", "Last-Event-ID", "y"},
		{204, "markRead", "POST", "/v1/users/bob/inbox/read", `{"up_to":"` + one + `"}`, "", ""},
		{204, "markRead", "POST", "/v1/users/bob/inbox/read", `{"all":true}`, "", ""},
		{204, "markSeen", "POST", "/v1/users/bob/inbox/seen", `{}`, "", ""},
		{422, "markSeen", "POST", "/v1/users/bob/inbox/seen", `{"cursor":"x"}`, "", ""},
		{200, "markMessages", "POST", "/v1/users/bob/inbox:mark", `{"ids":["019b7ca9-8c8a-7000-8000-000000000002"],"read":true}`, "", ""},
		{422, "markMessages", "POST", "/v1/users/bob/inbox:mark", `{"ids":[],"read":true}`, "", ""},
		{200, "countBy", "GET", "/v1/users/bob/inbox/counts", "", "", ""},
		{400, "markRead", "POST", "/v1/users/bob/inbox/read", `{"up":1}`, "", ""},
		{200, "purgeInbox", "POST", "/v1/users/bob/inbox:purge", `{"until":"` + now + `","dry_run":true}`, "", ""},
		{404, "purgeInbox", "POST", "/v1/users/nobody/inbox:purge", `{"until":"` + now + `"}`, "", ""},
		{200, "userRetention", "GET", "/v1/users/bob/retention", "", "", ""},
		{422, "userRetention", "GET", "/v1/users/bob/retention?x=1", "", "", ""},
		{204, "setUserRetention", "PUT", "/v1/users/bob/retention", `{"max_age":"30d","newest":1000}`, "", ""},
		{422, "setUserRetention", "PUT", "/v1/users/bob/retention", `{"newest":0}`, "", ""},
		{204, "deleteUserRetention", "DELETE", "/v1/users/bob/retention", "", "", ""},
		{422, "deleteUserRetention", "DELETE", "/v1/users/%20/retention", "", "", ""},
		{204, "deleteEntry", "DELETE", "/v1/users/bob/inbox/" + one, "", "", ""},
		{404, "deleteEntry", "DELETE", "/v1/users/ann/inbox/" + one, "", "", ""},
		{200, "explain", "GET", "/v1/admin/explain?user=bob&message=" + id, "", "", ""},
		{422, "explain", "GET", "/v1/admin/explain?user=bob", "", "", ""},
		{200, "storedInbox", "GET", "/v1/admin/users/bob/inbox:stored", "", "", ""},
		{404, "storedInbox", "GET", "/v1/admin/users/nobody/inbox:stored", "", "", ""},
		{200, "audit", "POST", "/v1/admin/audit", `{"user":"bob"}`, "", ""},
		{200, "audit", "POST", "/v1/admin/audit", `{"sample":2}`, "", ""},
		{422, "audit", "POST", "/v1/admin/audit", `{"sample":-1}`, "", ""},
		{200, "deadLetters", "GET", "/v1/admin/dlq?limit=1", "", "", ""},
		{200, "deadLetters", "GET", "/v1/admin/dlq?after=1", "", "", ""},
		{422, "deadLetters", "GET", "/v1/admin/dlq?after=x", "", "", ""},
		{204, "redriveDeadLetter", "POST", "/v1/admin/dlq/1:redrive", "", "", ""},
		{409, "redriveDeadLetter", "POST", "/v1/admin/dlq/2:redrive", "", "", ""},
		{204, "dropDeadLetter", "DELETE", "/v1/admin/dlq/2", "", "", ""},
		{404, "dropDeadLetter", "DELETE", "/v1/admin/dlq/2", "", "", ""},
		{200, "settings", "GET", "/v1/admin/settings", "", "", ""},
		{422, "settings", "GET", "/v1/admin/settings?x=1", "", "", ""},
		{200, "changeSetting", "PUT", "/v1/admin/settings/dormant_after", `{"value":"20d","dry_run":true}`, "", ""},
		{200, "changeSetting", "PUT", "/v1/admin/settings/dormant_after", `{"value":"20d"}`, "", ""},
		{200, "changeSetting", "PUT", "/v1/admin/settings/dormant_after", `{"value":"21d","confirm":false}`, "", ""},
		{422, "changeSetting", "PUT", "/v1/admin/settings/addr", `{"value":"x"}`, "", ""},
		{200, "attributes", "GET", "/v1/admin/attributes", "", "", ""},
		{422, "attributes", "GET", "/v1/admin/attributes?x=1", "", "", ""},
		{201, "declareAttribute", "PUT", "/v1/admin/attributes/total", `{"type":"number"}`, "", ""},
		{204, "declareAttribute", "PUT", "/v1/admin/attributes/total", `{"type":"number"}`, "", ""},
		{409, "declareAttribute", "PUT", "/v1/admin/attributes/total", `{"type":"string"}`, "", ""},
		{200, "attribute", "GET", "/v1/admin/attributes/total", "", "", ""},
		{404, "attribute", "GET", "/v1/admin/attributes/none", "", "", ""},
		{204, "deleteAttribute", "DELETE", "/v1/admin/attributes/total", "", "", ""},
		{422, "deleteAttribute", "DELETE", "/v1/admin/attributes/a.b", "", "", ""},
		{200, "processes", "GET", "/v1/admin/processes", "", "", ""},
		{422, "processes", "GET", "/v1/admin/processes?x=1", "", "", ""},
		{200, "overview", "GET", "/v1/admin/overview", "", "", ""},
		{422, "overview", "GET", "/v1/admin/overview?x=1", "", "", ""},
		{200, "dormancy", "GET", "/v1/admin/dormancy", "", "", ""},
		{422, "dormancy", "GET", "/v1/admin/dormancy?x=1", "", "", ""},
		{200, "retentionStatus", "GET", "/v1/admin/retention", "", "", ""},
		{422, "retentionStatus", "GET", "/v1/admin/retention?x=1", "", "", ""},
		{200, "backup", "POST", "/v1/admin/backup", `{"dir":"` + dir + `"}`, "", ""},
		{422, "backup", "POST", "/v1/admin/backup", `{"dir":"` + dir + `"}`, "", ""},
		{200, "health", "GET", "/healthz", "", "", ""},
		{422, "health", "GET", "/healthz?x=1", "", "", ""},
		{200, "ready", "GET", "/readyz", "", "", ""},
		{422, "ready", "GET", "/readyz?x=1", "", "", ""},
		{200, "metrics", "GET", "/metrics", "", "", ""},
		{422, "metrics", "GET", "/metrics?x=1", "", "", ""},
		{200, "openapi", "GET", "/openapi.json", "", "", ""},
		{422, "openapi", "GET", "/openapi.json?x=1", "", "", ""},
	} {
		var headers []string
		if ask.header != "" {
			headers = []string{ask.header, ask.value}
		}
		answer := w.ask(t, ask.method, ask.target, ask.body, headers...)
		require.Equal(t, ask.status, answer.Code, "%s %s: %s", ask.method, ask.target, answer.Body)
		if seen[ask.operation] == nil {
			seen[ask.operation] = make(map[bool]bool)
		}
		seen[ask.operation][ask.status < 300] = true
	}
	for path, item := range doc.Paths.Map() {
		for _, operation := range item.Operations() {
			require.Equal(t, map[bool]bool{true: true, false: true}, seen[operation.OperationID], "%s of %s", operation.OperationID, path)
		}
	}
}

// everything lets a world serve all operations. It has a real bus with one dead letter that can be redriven and one that cannot.
func everything(t *testing.T, w *world) *world {
	t.Helper()
	server, err := natsserver.Start(t.Context(), natsserver.Options{Dir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(server.Stop)
	bus, err := natsbus.Connect(t.Context(), natsbus.Options{
		Server: server, Partitions: partitions, Lease: time.Minute, Replicas: 1, PublishedBytes: 1 << 20, FanoutBytes: 1 << 20, LoginBytes: 1 << 20, DeadLetterBytes: 1 << 20,
		Logger: zerolog.Nop(),
	})
	require.NoError(t, err)
	t.Cleanup(bus.Close)
	for i, subject := range []string{"fanmail.v1.login", "fanmail.v1.elsewhere"} {
		require.NoError(t, bus.DeadLetter(t.Context(), event.DeadLetter{
			Version: event.Version, Reason: event.ReasonPanic, Error: "error " + strconv.Itoa(i), Attempts: 1, Subject: subject, Payload: []byte(`{"v":1,"user":"ann"}`),
		}))
	}
	services := w.services
	services.Audit = audit.New(audit.Stores{
		Messages: w.db.Messages(), Progress: w.db.Progress(), Users: w.db.Users(), Edges: w.db.Edges(), Flags: w.db.Flags(),
		Buckets: w.db.Inbox(), Appender: w.appender,
	}, audit.Options{Partitions: partitions, Rules: userstate.DefaultRules, Random: rand.Reader, Now: w.clock})
	services.DeadLetters = deadletter.New(deadletter.Parts{Bus: bus, Progress: w.db.Progress()}, deadletter.Options{Logger: zerolog.Nop(), Now: w.clock})
	current, service := recordedIn(t, w.db.Settings(), w)
	services.Settings = service
	services.Backup = backup.New(bus, folder{}, t.TempDir(), "/", w.clock)
	services.Retention = walker(w)
	addOverview(w, &services, bus, current)
	w.handler = httpapi.New(services, w.options)
	return w
}

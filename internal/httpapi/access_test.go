package httpapi_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/auth"
	"github.com/fanmail/fanmail/internal/httpapi"
	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

// token returns the token of a named client.
func token(name string) string { return name + strings.Repeat("-secret", 5) }

// as returns the header of a request with the token of a named client.
func as(name string) []string { return []string{"Authorization", "Bearer " + token(name)} }

// authenticator accepts the tokens of some named clients.
func authenticator(tb testing.TB, now func() time.Time) *auth.Authenticator {
	tb.Helper()
	var file strings.Builder
	file.WriteString("tokens:\n")
	for name, grants := range map[string]string{
		"ann":      `scopes: [publish], senders: [ann], identities: [email], topics: [news, "programming/*"]`,
		"bob":      "scopes: [read], user: bob, identities: [phone]",
		"eve":      `scopes: [read], user: eve, subscribe: ["news/*"]`,
		"cy":       "scopes: [read], user: cy",
		"dee":      "scopes: [read, publish], user: dee, senders: [dee]",
		"gateway":  `scopes: [read], user: "*"`,
		"operator": "scopes: [admin], identities: [email, phone, handle, url]",
		"mailer":   "scopes: [admin], identities: [email]",
		"viewer":   "scopes: [operate]",
		"watcher":  "scopes: [metrics]",
		"past":     "scopes: [admin], expires: 2001-01-01T00:00:00Z",
	} {
		hash := sha256.Sum256([]byte(token(name)))
		fmt.Fprintf(&file, "  - {name: %s, sha256: %s, %s}\n", name, hex.EncodeToString(hash[:]), grants)
	}
	path := filepath.Join(tb.TempDir(), "tokens.yaml")
	require.NoError(tb, os.WriteFile(path, []byte(file.String()), 0o600))
	a, err := auth.New(auth.Options{TokensFile: path, Now: now, Logger: zerolog.Nop()})
	require.NoError(tb, err)
	return a
}

// guarded returns a world that requires tokens.
func guarded(tb testing.TB, change settings) *world {
	tb.Helper()
	more := change.options
	change.options = func(o *httpapi.Options) {
		o.Auth = authenticator(tb, o.Now)
		if more != nil {
			more(o)
		}
	}
	return newWorld(tb, change)
}

// uses has, for each endpoint, a request that is allowed with bob's token, or else with the operator's, and the other clients whose
// tokens also allow it.
var uses = map[string]struct{ target, body, may string }{
	"POST /v1/messages":                            {"/v1/messages", `{"from":"ann","to":["bob"],"body":"x"}`, "ann"},
	"GET /v1/messages":                             {"/v1/messages?from=ann", "", "ann operator viewer"},
	"POST /v1/messages:batch":                      {"/v1/messages:batch", `{"from":"ann","to":["bob"],"body":"x"}`, "ann dee"},
	"GET /v1/messages/{id}":                        {"/v1/messages/ID", "", "ann bob gateway operator viewer"},
	"POST /v1/following:batch":                     {"/v1/following:batch", `{"follower":"bob","followee":"ann"}`, "bob cy dee gateway operator"},
	"GET /v1/users/{user}/followers":               {"/v1/users/bob/followers", "", "bob gateway operator"},
	"GET /v1/users/{user}/following":               {"/v1/users/bob/following", "", "bob gateway operator"},
	"PUT /v1/users/{user}/following/{followee}":    {"/v1/users/bob/following/ann", "", "bob gateway operator"},
	"DELETE /v1/users/{user}/following/{followee}": {"/v1/users/bob/following/ann", "", "bob gateway operator"},
	"DELETE /v1/users/{user}/followers/{follower}": {"/v1/users/bob/followers/ann", "", "bob gateway operator"},
	"GET /v1/users/{user}/blocked":                 {"/v1/users/bob/blocked", "", "bob gateway operator"},
	"PUT /v1/users/{user}/blocked/{other}":         {"/v1/users/bob/blocked/cy", "", "bob gateway operator"},
	"DELETE /v1/users/{user}/blocked/{other}":      {"/v1/users/bob/blocked/cy", "", "bob gateway operator"},
	"PUT /v1/identities/{kind}/{value}":            {"/v1/identities/email/bob@example.com", `{"user":"bob"}`, "operator"},
	"GET /v1/identities/{kind}/{value}":            {"/v1/identities/email/bob@example.com", "", "operator"},
	"DELETE /v1/identities/{kind}/{value}":         {"/v1/identities/email/bob@example.com", "", "operator"},
	"POST /v1/identities:lookup":                   {"/v1/identities:lookup", `{"kind":"email","value":"bob@example.com"}`, "operator"},
	"POST /v1/identities:batch":                    {"/v1/identities:batch", `{"kind":"email","value":"bob@example.com","user":"bob"}`, "operator"},
	"GET /v1/users/{user}/identities":              {"/v1/users/bob/identities", "", "bob gateway operator"},
	"GET /v1/topics":                               {"/v1/topics", "", "ann bob cy dee gateway operator"},
	"POST /v1/topics:batch":                        {"/v1/topics:batch", `{"topic":"news"}`, "operator"},
	"GET /v1/topics/{topic...}":                    {"/v1/topics/news", "", "ann bob cy dee gateway operator"},
	"PUT /v1/topics/{topic...}":                    {"/v1/topics/news", "", "operator"},
	"DELETE /v1/topics/{topic...}":                 {"/v1/topics/old", "", "operator"},
	"GET /v1/subscriptions":                        {"/v1/subscriptions?topic=news", "", "operator"},
	"POST /v1/subscriptions:batch":                 {"/v1/subscriptions:batch", `{"user":"bob","topic":"news"}`, "bob cy dee gateway operator"},
	"GET /v1/users/{user}/topics":                  {"/v1/users/bob/topics", "", "bob gateway operator"},
	"PUT /v1/users/{user}/topics/{topic...}":       {"/v1/users/bob/topics/news", "", "bob gateway operator"},
	"DELETE /v1/users/{user}/topics/{topic...}":    {"/v1/users/bob/topics/news", "", "bob gateway operator"},
	"POST /v1/inboxes:counts":                      {"/v1/inboxes:counts", `{"users":["bob"]}`, "bob gateway operator"},
	"POST /v1/users:batch":                         {"/v1/users:batch", "", "operator"},
	"GET /v1/users/{user}":                         {"/v1/users/bob", "", "bob gateway operator"},
	"PUT /v1/users/{user}":                         {"/v1/users/bob", `{"last_viewed":"2001-01-01T00:00:00Z"}`, "operator"},
	"POST /v1/users/{user}/login":                  {"/v1/users/bob/login", "", "bob gateway operator"},
	"GET /v1/users/{user}/inbox":                   {"/v1/users/bob/inbox", "", "bob gateway operator"},
	"GET /v1/users/{user}/inbox/counts":            {"/v1/users/bob/inbox/counts?by=from", "", "bob gateway operator"},
	"GET /v1/users/{user}/inbox/changes":           {"/v1/users/bob/inbox/changes", "", "bob gateway operator"},
	"GET /v1/users/{user}/inbox/events":            {"/v1/users/bob/inbox/events?cursor=x", "", "bob gateway operator"}, // refused later
	"POST /v1/users/{user}/inbox/read":             {"/v1/users/bob/inbox/read", `{"up_to":"ID"}`, "bob gateway operator"},
	"POST /v1/users/{user}/inbox/seen":             {"/v1/users/bob/inbox/seen", `{}`, "bob gateway operator"},
	"POST /v1/users/{user}/inbox:mark":             {"/v1/users/bob/inbox:mark", `{"ids":["ID"],"read":true}`, "bob gateway operator"},
	"POST /v1/users/{user}/inbox:purge":            {"/v1/users/bob/inbox:purge", `{"until":"2001-01-01T00:00:00Z"}`, "bob gateway operator"},
	"GET /v1/users/{user}/retention":               {"/v1/users/bob/retention", "", "operator"},
	"PUT /v1/users/{user}/retention":               {"/v1/users/bob/retention", `{"newest":1}`, "operator"},
	"DELETE /v1/users/{user}/retention":            {"/v1/users/bob/retention", "", "operator"},
	"DELETE /v1/users/{user}/inbox/{id}":           {"/v1/users/bob/inbox/019b7ca9-8c8a-7000-8000-000000000002", "", "bob gateway operator"}, // not ID: bob still reads that
	"GET /v1/admin/explain":                        {"/v1/admin/explain?user=bob&message=ID", "", "operator viewer"},
	"GET /v1/admin/users/{user}/inbox:stored":      {"/v1/admin/users/bob/inbox:stored", "", "operator viewer"},
	"POST /v1/admin/audit":                         {"/v1/admin/audit", `{"user":"bob"}`, "operator"},
	"GET /v1/admin/dlq":                            {"/v1/admin/dlq", "", "operator viewer"},
	"POST /v1/admin/dlq/{id}":                      {"/v1/admin/dlq/1:redrive", "", "operator"},
	"DELETE /v1/admin/dlq/{id}":                    {"/v1/admin/dlq/1", "", "operator"},
	"GET /v1/admin/settings":                       {"/v1/admin/settings", "", "operator"},
	"PUT /v1/admin/settings/{key}":                 {"/v1/admin/settings/dormant_after", `{"value":"20d"}`, "operator"},
	"GET /v1/admin/attributes":                     {"/v1/admin/attributes", "", "operator"},
	"GET /v1/admin/attributes/{name}":              {"/v1/admin/attributes/total", "", "operator"},
	"PUT /v1/admin/attributes/{name}":              {"/v1/admin/attributes/total", `{"type":"number"}`, "operator"},
	"DELETE /v1/admin/attributes/{name}":           {"/v1/admin/attributes/other", "", "operator"},
	"GET /v1/admin/processes":                      {"/v1/admin/processes", "", "operator viewer"},
	"GET /v1/admin/retention":                      {"/v1/admin/retention", "", "operator viewer"},
	"GET /v1/admin/overview":                       {"/v1/admin/overview", "", "operator viewer"},
	"GET /v1/admin/dormancy":                       {"/v1/admin/dormancy", "", "operator viewer"},
	"POST /v1/admin/backup":                        {"/v1/admin/backup", `{"dir":"x"}`, "operator"},
	"GET /metrics":                                 {"/metrics", "", "watcher operator"},
	"GET /healthz":                                 {"/healthz", "", "*"},
	"GET /openapi.json":                            {"/openapi.json", "", "*"},
	"GET /readyz":                                  {"/readyz", "", "*"},
}

// TestEveryEndpointIsGuarded checks every endpoint of the handler. A new endpoint fails the test until uses has a row for it.
func TestEveryEndpointIsGuarded(t *testing.T) {
	t.Parallel()
	var services httpapi.Services
	var options httpapi.Options
	w := guarded(t, settings{
		services: func(s *httpapi.Services) { services = *s }, options: func(o *httpapi.Options) { options = *o },
	})
	addAudit(t, w, &services, w.db.Inbox())
	w.handler = httpapi.New(services, options)
	m := messagetest.Message(1, "ann")
	m.To, m.Audience = []message.UserID{"bob"}, ""
	_, err := w.db.Messages().Insert(t.Context(), []message.Message{m}, messagetest.AnyTime)
	require.NoError(t, err)
	endpoints := httpapi.Endpoints(w.handler)
	require.Len(t, uses, len(endpoints))
	for endpoint, access := range endpoints {
		use, ok := uses[endpoint]
		require.True(t, ok, "%s: whom is it for?", endpoint)
		require.Equal(t, use.may == "*", access.Open, endpoint)
		require.Equal(t, strings.Contains(endpoint, "{user}") && strings.HasPrefix(use.may, "bob"), access.Own, endpoint)
		if access.Open {
			continue
		}
		method, _, _ := strings.Cut(endpoint, " ")
		fill := strings.NewReplacer("ID", messagetest.ID(1).String())
		ask := func(headers ...string) *httptest.ResponseRecorder {
			return w.ask(t, method, fill.Replace(use.target), fill.Replace(use.body), headers...)
		}
		for _, headers := range [][]string{
			{},
			as("nobody"), as("past"),
			{"Authorization", "Basic YWRtaW46YWRtaW4="},
			{"Authorization", "Bearer "},
			{"Authorization", token("operator")},
			append(as("operator"), as("operator")...),
			{"Cookie", "token=" + token("operator")},
		} {
			answer := ask(headers...)
			require.Equal(t, http.StatusUnauthorized, answer.Code, "%s with %v", endpoint, headers)
			require.Contains(t, answer.Header().Get("WWW-Authenticate"), `Bearer realm="fanmail"`)
			require.NotContains(t, answer.Body.String(), "secret")
			require.Equal(t, client.ProblemUnauthorized, problem(t, answer).Type)
		}
		for _, name := range []string{"ann", "bob", "cy", "dee", "gateway", "operator", "viewer", "watcher"} {
			answer := ask(as(name)...)
			may := strings.Contains(" "+use.may+" ", " "+name+" ")
			refused := answer.Code == http.StatusForbidden || answer.Code == http.StatusNotFound && endpoint == "GET /v1/messages/{id}"
			require.Equal(t, !may, refused, "%s as %s: %d %s", endpoint, name, answer.Code, answer.Body)
			require.NotEqual(t, http.StatusUnauthorized, answer.Code)
			require.True(t, answer.Code < 500 || strings.Contains(endpoint, "/dlq") && answer.Code == 503, "%s: %s", endpoint, answer.Body)
		}
	}
	require.NotContains(t, w.log.String(), "secret", "no token is ever logged")
}

// Who was refused reads why, and so does the operator.
func TestReasonsOfRefusals(t *testing.T) {
	t.Parallel()
	w := guarded(t, settings{})
	for name, want := range map[string]string{
		"past":   `Bearer realm="fanmail", error="invalid_token", error_description="it has expired"`,
		"nobody": `Bearer realm="fanmail", error="invalid_token"`,
	} {
		answer := w.ask(t, http.MethodGet, "/v1/topics", "", as(name)...)
		require.Equal(t, want, answer.Header().Get("WWW-Authenticate"))
	}
	require.Contains(t, w.log.String(), "it has expired")
}

func TestEachLineOfABatchIsForSomebody(t *testing.T) {
	t.Parallel()
	w := guarded(t, settings{})
	body := `{"from":"ann","to":["bob"],"body":"mine"}` + "\n" + `{"from":"dee","to":["bob"],"body":"another's"}` + "\n" + `{"from":"ann","to":["bob"],"body":"mine"}`
	lines := strings.Split(strings.TrimSpace(w.must(t, http.StatusOK, http.MethodPost, "/v1/messages:batch", body, as("ann")...)), "\n")
	require.Len(t, lines, 3)
	require.Contains(t, lines[0], `"from":"ann"`)
	require.Contains(t, lines[1], `"status":403`)
	require.Contains(t, lines[1], `does not allow to publish as \"dee\"`)
	require.Contains(t, lines[2], `"from":"ann"`)
	require.Equal(t, 2, w.bus.count())

	edges := `{"follower":"bob","followee":"ann"}` + "\n" + `{"follower":"cy","followee":"ann"}`
	require.JSONEq(t, `{"accepted":1,"rejected":[{"line":2,"error":"the token does not belong to \"cy\""}]}`,
		w.must(t, http.StatusOK, http.MethodPost, "/v1/following:batch", edges, as("bob")...))
	require.JSONEq(t, `{"accepted":2,"rejected":[]}`, w.must(t, http.StatusOK, http.MethodPost, "/v1/following:batch", edges, as("gateway")...))
}

func TestTopicsOfTokens(t *testing.T) {
	t.Parallel()
	w := guarded(t, settings{})
	draft := func(topics string) string { return `{"from":"ann","to":["bob"],"topics":[` + topics + `],"body":"x"}` }
	for topics, field := range map[string]string{
		`"programming"`:             "topics[0]",
		`"news","news/de"`:          "topics[1]",
		`"programming/go","sports"`: "topics[1]",
		`"programming/go","x y"`:    "topics[1]",
	} {
		answer := w.ask(t, http.MethodPost, "/v1/messages", draft(topics), as("ann")...)
		require.Equal(t, http.StatusForbidden, answer.Code, "%s: %s", topics, answer.Body)
		require.Equal(t, field, problem(t, answer).Field, topics)
		require.Contains(t, w.must(t, http.StatusOK, http.MethodPost, "/v1/messages:batch", draft(topics), as("ann")...), `"status":403`)
	}
	for _, topics := range []string{"", `"news"`, `"programming/go","programming/go/1.27"`} { // there are no topics yet
		answer := w.ask(t, http.MethodPost, "/v1/messages", draft(topics), as("ann")...)
		require.NotEqual(t, http.StatusForbidden, answer.Code, answer.Body)
	}
	w.must(t, http.StatusForbidden, http.MethodPost, "/v1/messages", strings.ReplaceAll(draft(`"news"`), "ann", "dee"), as("dee")...)
}

// A token lists the topics to subscribe to; one without a list may subscribe to all. Everybody may leave a topic.
func TestSubscriptionsOfTokens(t *testing.T) {
	t.Parallel()
	w := guarded(t, settings{})
	for _, topic := range []string{"news", "news/de", "sports"} {
		w.must(t, http.StatusCreated, http.MethodPut, "/v1/topics/"+topic, "", as("operator")...)
		status, accepted := http.StatusForbidden, `"accepted":0,"rejected":[{"line":1,"error":"the token does not allow to subscribe to the topic`
		if topic == "news/de" {
			status, accepted = http.StatusNoContent, `"accepted":1`
		}
		w.must(t, status, http.MethodPut, "/v1/users/eve/topics/"+topic, "", as("eve")...)
		line := `{"user":"eve","topic":"` + topic + `"}`
		require.Contains(t, w.must(t, http.StatusOK, http.MethodPost, "/v1/subscriptions:batch", line, as("eve")...), accepted)
		w.must(t, http.StatusNoContent, http.MethodDelete, "/v1/users/eve/topics/"+topic, "", as("eve")...)
		w.must(t, http.StatusNoContent, http.MethodPut, "/v1/users/bob/topics/"+topic, "", as("bob")...)
	}
}

func TestAMessageIsForItsEnds(t *testing.T) {
	t.Parallel()
	w := guarded(t, settings{})
	w.must(t, http.StatusNoContent, http.MethodPut, "/v1/users/bob/following/dee", "", as("bob")...)
	w.pass(time.Second)
	publish := func(draft string) string {
		answer := w.must(t, http.StatusAccepted, http.MethodPost, "/v1/messages", draft, as("dee")...)
		_, rest, _ := strings.Cut(answer, `"id":"`)
		return rest[:36]
	}
	named, toFollowers := publish(`{"from":"dee","to":["cy"],"body":"x"}`), publish(`{"from":"dee","audience":"followers","body":"x"}`)
	absent := w.ask(t, http.MethodGet, "/v1/messages/"+messagetest.ID(77).String(), "", as("bob")...)
	for _, test := range []struct {
		id, who string
		sees    bool
	}{
		{named, "dee", true},
		{named, "cy", true},
		{named, "bob", false},
		{named, "ann", false},
		{named, "gateway", true},
		{toFollowers, "bob", true},
		{toFollowers, "cy", false},
		{toFollowers, "operator", true},
		{toFollowers, "viewer", true},
	} {
		answer := w.ask(t, http.MethodGet, "/v1/messages/"+test.id, "", as(test.who)...)
		if test.sees {
			require.Equal(t, http.StatusOK, answer.Code, test)
			require.Equal(t, test.who != "viewer", strings.Contains(answer.Body.String(), `"body":"x"`), "who operates does not read it")
			continue
		}
		require.Equal(t, http.StatusNotFound, answer.Code, test)
		require.Equal(t, absent.Body.String(), answer.Body.String(), "it is as if it were not there")
	}
	w.pass(time.Second)
	w.must(t, http.StatusNoContent, http.MethodDelete, "/v1/users/bob/following/dee", "", as("bob")...)
	w.must(t, http.StatusOK, http.MethodGet, "/v1/messages/"+toFollowers, "", as("bob")...)
	w.pass(time.Second)
	later := publish(`{"from":"dee","audience":"followers","body":"x"}`)
	w.must(t, http.StatusNotFound, http.MethodGet, "/v1/messages/"+later, "", as("bob")...)
}

// A user who purged or deleted a message gets no other way to it. Its author, who got it too, does.
func TestAMessageThatItsReaderRemovedIsGone(t *testing.T) {
	t.Parallel()
	w := guarded(t, settings{})
	w.pass(time.Minute)
	deliver := func(n int) string {
		m := messagetest.Message(n, "dee")
		m.To = []message.UserID{"bob", "cy", "dee"}
		_, err := w.db.Messages().Insert(t.Context(), []message.Message{m}, messagetest.AnyTime)
		require.NoError(t, err)
		for _, owner := range m.To {
			_, err := w.appender.Append(t.Context(), []bucket.Append{{Owner: owner, Entries: []bucket.Entry{bucket.EntryOf(m)}}})
			require.NoError(t, err)
		}
		return m.ID.String()
	}
	status := func(id, who string) int { return w.ask(t, http.MethodGet, "/v1/messages/"+id, "", as(who)...).Code }
	deleted, purged := deliver(2), deliver(1)
	for _, who := range []string{"bob", "dee"} {
		w.must(t, http.StatusOK, http.MethodGet, "/v1/users/"+who+"/inbox", "", as(who)...)
		w.must(t, http.StatusNoContent, http.MethodDelete, "/v1/users/"+who+"/inbox/"+deleted, "", as(who)...)
		w.must(t, http.StatusOK, http.MethodPost, "/v1/users/"+who+"/inbox:purge",
			`{"until":"`+messagetest.ID(1).Time().Format(client.TimeLayout)+`"}`, as(who)...)
		for _, id := range []string{deleted, purged} {
			require.Equal(t, map[string]int{"bob": http.StatusNotFound, "dee": http.StatusOK}[who], status(id, who))
			require.Equal(t, http.StatusOK, status(id, "cy"), "it is there for the others")
		}
	}
}

func TestRates(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{options: func(o *httpapi.Options) {
		o.SenderRate, o.AddressRate = httpapi.Rate{PerSecond: 1, Burst: 2}, httpapi.Rate{PerSecond: 5, Burst: 10}
	}})
	publish := func(from string) *httptest.ResponseRecorder {
		return w.ask(t, http.MethodPost, "/v1/messages", `{"from":"`+from+`","to":["bob"],"body":"x"}`)
	}
	require.Equal(t, http.StatusAccepted, publish("ann").Code)
	require.Equal(t, http.StatusAccepted, publish("ann").Code)
	limited := publish("ann")
	require.Equal(t, http.StatusTooManyRequests, limited.Code)
	require.Equal(t, "1", limited.Header().Get("Retry-After"))
	require.Equal(t, client.ProblemRateLimited, problem(t, limited).Type)
	require.Equal(t, http.StatusAccepted, publish("dee").Code, "others are not bounded by it")
	w.pass(time.Second)
	require.Equal(t, http.StatusAccepted, publish("ann").Code)

	batch := strings.Repeat(`{"from":"cy","to":["bob"],"body":"x"}`+"\n", 4)
	answer := w.must(t, http.StatusOK, http.MethodPost, "/v1/messages:batch", batch)
	require.Equal(t, 2, strings.Count(answer, "rate-limited"), answer)
	w.must(t, http.StatusTooManyRequests, http.MethodPost, "/v1/messages:batch", batch)

	w.pass(time.Second)
	for range 10 {
		w.ask(t, http.MethodGet, "/v1/users/bob", "")
	}
	require.Equal(t, http.StatusTooManyRequests, w.ask(t, http.MethodGet, "/v1/users/bob", "").Code)
	w.must(t, http.StatusOK, http.MethodGet, "/healthz", "")
}

// A user begins so many edges in a second, of whatever kind. An operator has no limit.
func TestRateOfEdges(t *testing.T) {
	t.Parallel()
	w := guarded(t, settings{options: func(o *httpapi.Options) { o.EdgeRate = httpapi.Rate{PerSecond: 1, Burst: 3} }})
	w.must(t, http.StatusCreated, http.MethodPut, "/v1/topics/news", "", as("operator")...)
	w.must(t, http.StatusNoContent, http.MethodPut, "/v1/users/bob/following/ann", "", as("bob")...)
	w.must(t, http.StatusNoContent, http.MethodPut, "/v1/users/bob/topics/news", "", as("bob")...)
	line := `{"follower":"bob","followee":"dee"}` + "\n"
	answer := w.must(t, http.StatusOK, http.MethodPost, "/v1/following:batch", line+line, as("bob")...)
	require.Contains(t, answer, `{"accepted":1,"rejected":[{"line":2,"error":"this user sends more than it may`)
	w.must(t, http.StatusTooManyRequests, http.MethodPut, "/v1/users/bob/blocked/cy", "", as("bob")...)
	answer = w.must(t, http.StatusOK, http.MethodPost, "/v1/subscriptions:batch", `{"user":"bob","topic":"news"}`, as("bob")...)
	require.Contains(t, answer, `"accepted":0`)
	w.must(t, http.StatusNoContent, http.MethodDelete, "/v1/users/bob/following/ann", "", as("bob")...)
	w.must(t, http.StatusNoContent, http.MethodPut, "/v1/users/cy/following/ann", "", as("cy")...)
	w.must(t, http.StatusNoContent, http.MethodPut, "/v1/users/bob/following/ann", "", as("operator")...)
	w.pass(time.Second)
	w.must(t, http.StatusNoContent, http.MethodPut, "/v1/users/bob/blocked/cy", "", as("bob")...)
}

func TestBrowsersOfStrangers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{options: func(o *httpapi.Options) { o.LocalOnly = true }})
	for name, test := range map[string]struct {
		host    string
		headers []string
		status  int
	}{
		"by address":     {"127.0.0.1:8080", nil, http.StatusOK},
		"by IPv6":        {"[::1]:8080", nil, http.StatusOK},
		"by name":        {"localhost:8080", nil, http.StatusOK},
		"a rebound name": {"evil.example:8080", nil, http.StatusForbidden},
		"another site":   {"127.0.0.1:8080", []string{"Sec-Fetch-Site", "cross-site"}, http.StatusForbidden},
		"another origin": {"127.0.0.1:8080", []string{"Origin", "https://evil.example"}, http.StatusForbidden},
		"its own pages":  {"127.0.0.1:8080", []string{"Sec-Fetch-Site", "same-origin"}, http.StatusOK},
	} {
		for _, target := range []string{"POST /v1/users/bob/login", "GET /v1/users/bob/inbox"} {
			method, path, _ := strings.Cut(target, " ")
			r := httptest.NewRequestWithContext(t.Context(), method, path, http.NoBody)
			r.Host = test.host
			for i := 0; i < len(test.headers); i += 2 {
				r.Header.Set(test.headers[i], test.headers[i+1])
			}
			answer := httptest.NewRecorder()
			w.handler.ServeHTTP(answer, r)
			require.Equal(t, test.status, answer.Code, "%s: %s: %s", target, name, answer.Body)
		}
	}
}

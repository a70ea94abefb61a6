package console_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/console"
	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

const (
	admin   = "an-admin-who-acts"
	viewer  = "a-viewer-who-looks"
	hostile = `<script>alert("x")</script>`
)

var epoch = time.UnixMilli(1_700_000_000_000)

// api answers as the API does. Everything that a client sets is hostile in it.
type api struct {
	t     *testing.T
	acted []string
	// panics makes the next answer panic.
	panics any
}

// ServeHTTP implements http.Handler.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if a.panics != nil {
		panic(a.panics)
	}
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch {
	case token != admin && token != viewer:
		a.refuse(w, http.StatusUnauthorized, client.ProblemUnauthorized)
	case r.Method != http.MethodGet && token != admin:
		a.refuse(w, http.StatusForbidden, client.ProblemForbidden)
	case r.Method != http.MethodGet:
		a.acted = append(a.acted, r.Method+" "+r.URL.Path)
		w.WriteHeader(http.StatusNoContent)
	default:
		a.answer(w, answerTo(r))
	}
}

func answerTo(r *http.Request) any {
	id, at := messagetest.ID(1), client.Time{Time: epoch}
	fanout := client.Fanout{State: message.StateRunning, Lane: hostile, Partitions: []client.PartitionProgress{{Partition: 1, State: client.PartitionDone}, {Partition: 2}}}
	switch path := r.URL.Path; {
	case path == "/v1/messages":
		return client.MessagePage{Messages: []client.MessageProgress{{ID: id, From: hostile, State: message.StateRunning}}, Next: hostile}
	case strings.HasPrefix(path, "/v1/messages/"):
		return client.Status{
			ID: id, From: hostile, To: []message.UserID{hostile}, Topics: []message.Topic{hostile}, Audience: hostile, Body: hostile,
			Attrs: json.RawMessage(`"` + "<script>alert(1)</script>" + `"`), Fanout: fanout,
		}
	case path == "/v1/admin/explain":
		return client.Explanation{
			User: hostile, Message: id, Sentence: hostile, From: hostile, Sent: at, Spans: []client.Span{{Since: at}},
			Subscriptions: []client.Subscriptions{{Topic: hostile, Spans: []client.Span{{Since: at, Until: at}}}},
		}
	case path == "/v1/admin/dlq":
		return client.DeadLetterPage{Letters: []client.DeadLetter{
			{ID: 1, Reason: "malformed", Error: hostile, Subject: "fanmail.v1.fanout.bulk.3", From: hostile, Message: &id},
			{ID: 2, Reason: hostile, Subject: hostile, User: hostile},
			{ID: 3, Reason: "malformed", Subject: "fanmail.v1.fanout.bulk.4"},
		}}
	case path == "/v1/admin/overview":
		return client.Overview{
			Warnings:  []client.Warning{{Kind: client.WarnNoFanoutWorker, Text: hostile}},
			Processes: []client.ProcessLoad{{Name: hostile, Host: hostile, Version: hostile}}, Totals: &client.Totals{Accepted: 12345},
		}
	default:
		return map[string]string{"dormant_after": hostile}
	}
}

func (a *api) answer(w http.ResponseWriter, v any) {
	require.NoError(a.t, json.NewEncoder(w).Encode(v))
}

func (a *api) refuse(w http.ResponseWriter, status int, kind client.ProblemType) {
	w.Header().Set("Content-Type", client.ContentProblem)
	w.WriteHeader(status)
	a.answer(w, client.Problem{Type: kind, Status: status, Detail: "no: " + hostile})
}

// world is a console on an api.
type world struct {
	t      *testing.T
	api    *api
	pages  http.Handler
	ending chan struct{}
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, api: &api{t: t}, ending: make(chan struct{})}
	w.pages = console.New(w.api, console.Options{Login: true, Ending: w.ending, Now: time.Now, Logger: zerolog.New(zerolog.NewTestWriter(t))})
	return w
}

// ask sends a request with the cookie of a token. form makes it a POST from the console's own page, unless headers say another origin.
func (w *world) ask(token, target string, form url.Values, headers ...string) *httptest.ResponseRecorder {
	w.t.Helper()
	method := http.MethodGet
	if form != nil {
		method = http.MethodPost
	}
	r := httptest.NewRequestWithContext(w.t.Context(), method, "http://127.0.0.1:8080"+target, strings.NewReader(form.Encode()))
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", "http://127.0.0.1:8080")
	}
	if token != "" {
		r.AddCookie(&http.Cookie{Name: "fanmail_console", Value: token})
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Del(headers[i])
		if headers[i+1] != "" {
			r.Header.Set(headers[i], headers[i+1])
		}
	}
	answer := httptest.NewRecorder()
	w.pages.ServeHTTP(answer, r)
	return answer
}

var id = messagetest.ID(1).String()

// pages are those that show what the API answers.
var pages = []string{
	"/console/", "/console/messages?state=done&from=%3Cscript%3Ealert", "/console/messages/" + id, "/console/why?user=%3Cscript%3Ealert&message=" + id,
	"/console/users/%3Cscript%3Ealert/inbox", "/console/dead-letters", "/console/dead-letters/confirm?do=drop&reason=%3Cscript%3Ealert", "/console/dormancy",
}

func TestWhatClientsSetIsEscaped(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, target := range pages {
		answer := w.ask(viewer, target, nil)
		require.NotContains(t, answer.Body.String(), "<script>alert", target)
		require.NotContains(t, answer.Body.String(), " style=", target)
		require.Equal(t, "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'", answer.Header().Get("Content-Security-Policy"))
		require.Equal(t, "no-store", answer.Header().Get("Cache-Control"))
	}
	require.Contains(t, w.ask(viewer, "/console/messages/"+id, nil).Body.String(), "&lt;script&gt;alert(&#34;x&#34;)")
	require.Contains(t, w.ask(viewer, "/console/dead-letters", nil).Body.String(), "&lt;script&gt;alert")
}

func TestWhoHasNoValidTokenLogsIn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, token := range []string{"", "a-token-of-another-server"} {
		for _, target := range pages {
			if strings.Contains(target, "/users/%3C") { // no user has that id, so nothing is asked
				continue
			}
			answer := w.ask(token, target, nil)
			require.Equal(t, http.StatusSeeOther, answer.Code, target)
			require.Equal(t, "/console/login?to="+url.QueryEscape(target), answer.Header().Get("Location"))
		}
		answer := w.ask(token, "/console/dead-letters", url.Values{"do": {"drop"}, "id": {"1"}})
		require.Equal(t, http.StatusSeeOther, answer.Code)
	}
	require.Empty(t, w.api.acted)

	refused := w.ask("", "/console/login", url.Values{"token": {"a-token-of-another-server"}})
	require.Equal(t, http.StatusUnauthorized, refused.Code)
	require.Contains(t, refused.Body.String(), "no: &lt;script&gt;")
	require.Empty(t, refused.Header().Get("Set-Cookie"))

	for to, location := range map[string]string{
		"/console/why?user=a": "/console/why?user=a", "https://evil.example/console/": "/console/", "//evil.example/console/": "/console/", "/v1/users": "/console/",
	} {
		answer := w.ask("", "/console/login", url.Values{"token": {viewer}, "to": {to}})
		require.Equal(t, location, answer.Header().Get("Location"))
		require.Equal(t, "fanmail_console="+viewer+"; Path=/console/; HttpOnly; SameSite=Strict", answer.Header().Get("Set-Cookie"))
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "https://fanmail.example/console/logout", http.NoBody)
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	answer := httptest.NewRecorder()
	w.pages.ServeHTTP(answer, r)
	require.Equal(t, "fanmail_console=; Path=/console/; Max-Age=0; HttpOnly; Secure; SameSite=Strict", answer.Header().Get("Set-Cookie"))
}

func TestOtherSitesCannotAct(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, headers := range [][]string{
		{"Origin", "https://evil.example"}, {"Origin", "null"}, {"Origin", ""}, {"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"},
	} {
		for target, form := range map[string]url.Values{
			"/console/login": {"token": {admin}}, "/console/logout": {}, "/console/dead-letters": {"do": {"drop"}, "id": {"1"}},
		} {
			answer := w.ask(admin, target, form, headers...)
			require.Equal(t, http.StatusForbidden, answer.Code, "%s %v", target, headers)
			require.Empty(t, answer.Header().Get("Set-Cookie"))
		}
	}
	require.Empty(t, w.api.acted)
}

func TestLettersAreSettled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	many := url.Values{"do": {"redrive"}, "stage": {"bulk"}, "reason": {"malformed"}, "upto": {"2"}}
	refused := w.ask(viewer, "/console/dead-letters", many)
	require.Equal(t, http.StatusForbidden, refused.Code)
	require.Contains(t, refused.Body.String(), "no: &lt;script&gt;")
	require.Empty(t, w.api.acted)

	require.Contains(t, w.ask(admin, "/console/dead-letters/confirm?do=redrive&stage=bulk&reason=malformed", nil).Body.String(), "2 dead letters match")
	require.Contains(t, w.ask(admin, "/console/dead-letters", many).Body.String(), "1 redriven")
	require.Contains(t, w.ask(admin, "/console/dead-letters", url.Values{"do": {"drop"}, "id": {"3"}}).Body.String(), "1 dropped")
	require.Equal(t, []string{"POST /v1/admin/dlq/1:redrive", "DELETE /v1/admin/dlq/3"}, w.api.acted)
	for _, form := range []url.Values{{"do": {"drop"}}, {"do": {"burn"}, "id": {"1"}}} {
		require.Equal(t, http.StatusUnprocessableEntity, w.ask(admin, "/console/dead-letters", form).Code)
	}
	require.Len(t, w.api.acted, 2)
}

// A stream tells the panels, and ends with the token or with the process.
func TestPagesFollow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	close(w.ending)
	followed := w.ask(viewer, "/console/", nil, "Accept", "text/event-stream").Body.String()
	require.Equal(t, 5, strings.Count(followed, "event: panel\n"))
	require.NotContains(t, followed, "<script>alert")
	require.Contains(t, followed, "12,345")
	require.NotContains(t, w.ask(viewer, "/console/messages", nil, "Accept", "text/event-stream").Body.String(), `"id":"filter"`, "it has a form")
	for _, token := range []string{"", "ended"} {
		require.Equal(t, "event: end\ndata:\n\n", w.ask(token, "/console/", nil, "Accept", "text/event-stream").Body.String())
	}
	require.Equal(t, http.StatusServiceUnavailable, w.ask(viewer, "/console/why", nil, "Accept", "text/event-stream").Code)
}

// A handler that panics fails one panel, and not the process.
func TestPanelsFailAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for cause, want := range map[any]string{http.ErrAbortHandler: "the answer broke off", "a mistake": "The console failed"} {
		w.api.panics = cause
		answer := w.ask(viewer, "/console/", nil)
		require.Equal(t, http.StatusInternalServerError, answer.Code)
		require.Contains(t, answer.Body.String(), want)
	}
}

func TestAssetsAreKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.ask("", "/console/assets/live.mjs", nil)
	require.Equal(t, http.StatusOK, first.Code)
	require.Contains(t, first.Header().Get("Content-Type"), "javascript")
	require.Equal(t, http.StatusNotModified, w.ask("", "/console/assets/live.mjs", nil, "If-None-Match", first.Header().Get("ETag")).Code)
}

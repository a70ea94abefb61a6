package httpapi_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/fanmail/fanmail/internal/httpapi"
	"github.com/fanmail/fanmail/internal/tracing"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/identity"
	"github.com/fanmail/fanmail/pkg/message"
)

const joe = "/v1/identities/email/joe@example.com"

// breakable is a store of identities that can be away.
type breakable struct {
	identity.Store
	broken *bool
}

// away is the error of a store that repeats what it was asked.
func (b breakable) away(ids ...any) error {
	if *b.broken {
		return fmt.Errorf("look up %v %+v: %w", ids, ids, message.ErrUnavailable)
	}
	return nil
}

// Lookup implements identity.Store.
func (b breakable) Lookup(ctx context.Context, ids []identity.Identity) ([]identity.Looked, error) {
	if err := b.away(ids); err != nil {
		return nil, err
	}
	return b.Store.Lookup(ctx, ids)
}

// Insert implements identity.Store.
func (b breakable) Insert(ctx context.Context, records []identity.Record) ([]identity.Looked, error) {
	if err := b.away(records); err != nil {
		return nil, err
	}
	return b.Store.Insert(ctx, records)
}

func TestIdentities(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	list := func(user string) string {
		return w.must(t, http.StatusOK, http.MethodGet, "/v1/users/"+user+"/identities", "")
	}
	require.JSONEq(t, `{"identities":[]}`, list("joe"))
	require.Contains(t, w.must(t, http.StatusNotFound, http.MethodGet, joe, ""), string(client.ProblemNotFound))
	for range 2 {
		w.must(t, http.StatusNoContent, http.MethodPut, joe, `{"user":"joe"}`)
	}
	w.must(t, http.StatusNoContent, http.MethodPut, "/v1/identities/url/"+"HTTPS%3A%2F%2FExample.com%2Fjoe", `{"user":"joe"}`)
	require.JSONEq(t, `{"user":"joe"}`, w.must(t, http.StatusOK, http.MethodGet, joe, ""))
	require.JSONEq(t, `{"user":"joe"}`, w.must(t, http.StatusOK, http.MethodGet, "/v1/identities/email/JOE%40EXAMPLE.com", ""))
	require.JSONEq(t, `{"user":"joe"}`, w.must(t, http.StatusOK, http.MethodPost, "/v1/identities:lookup", `{"kind":"url","value":"https://example.com/joe"}`))
	require.JSONEq(t, `{"identities":[{"kind":"email","value":"joe@example.com"},{"kind":"url","value":"https://example.com/joe"}]}`, list("joe"))

	taken := w.must(t, http.StatusConflict, http.MethodPut, joe, `{"user":"ben"}`)
	require.Contains(t, taken, string(client.ProblemConflict))
	require.NotContains(t, strings.ReplaceAll(taken, "joe@", ""), "joe", "it does not say whose it is")
	w.must(t, http.StatusNoContent, http.MethodDelete, joe+"?user=ben", "")
	require.JSONEq(t, `{"user":"joe"}`, w.must(t, http.StatusOK, http.MethodGet, joe, ""))
	for _, target := range []string{joe + "?user=joe", joe, joe + "?user=joe"} {
		w.must(t, http.StatusNoContent, http.MethodDelete, target, "")
	}
	w.must(t, http.StatusNotFound, http.MethodGet, joe, "")
	w.must(t, http.StatusNoContent, http.MethodPut, joe, `{"user":"ben"}`)
	require.JSONEq(t, `{"identities":[{"kind":"email","value":"joe@example.com"}]}`, list("ben"))
	w.must(t, http.StatusNotFound, http.MethodGet, "/v1/users/ben", "") // still never seen
}

func TestTheTwentyFirstIdentity(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	target := func(n int) string { return "/v1/identities/handle/joe" + strconv.Itoa(n) }
	for n := range 20 {
		w.must(t, http.StatusNoContent, http.MethodPut, target(n), `{"user":"joe"}`)
	}
	answer := w.ask(t, http.MethodPut, target(20), `{"user":"joe"}`)
	require.Equal(t, http.StatusUnprocessableEntity, answer.Code)
	require.Equal(t, "user", problem(t, answer).Field)
	w.must(t, http.StatusNotFound, http.MethodGet, target(20), "")
	w.must(t, http.StatusNoContent, http.MethodPut, target(0), `{"user":"joe"}`)
	w.must(t, http.StatusNoContent, http.MethodDelete, target(0), "")
	w.must(t, http.StatusNoContent, http.MethodPut, target(20), `{"user":"joe"}`)
}

// The order of lines decides: of two users, the first gets the identity.
func TestIdentityBatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	line := func(kind, value, user string) string {
		return `{"kind":"` + kind + `","value":"` + value + `","user":"` + user + `"}` + "\n"
	}
	body := line("email", "joe@example.com", "joe") + line("email", "JOE@example.com", "ben") + "\n" + line("fax", "1", "joe") +
		line("email", "joe", "joe") + line("handle", "@Ben", "ben") + line("handle", "ben", "ben") + line("email", "x@example.com", "a b") +
		`{"kind":"email"}` + "\n" + `{"kind":5}` + "\n" + `{"kind":"email","valeu":"secret@example.com"}` + "\n" + strings.Repeat("x", 5000) + "\n"
	requireGolden(t, "identity_batch.golden", w.must(t, http.StatusOK, http.MethodPost, "/v1/identities:batch", body))
	require.JSONEq(t, `{"user":"joe"}`, w.must(t, http.StatusOK, http.MethodGet, joe, ""))
	require.JSONEq(t, `{"identities":[{"kind":"handle","value":"ben"}]}`, w.must(t, http.StatusOK, http.MethodGet, "/v1/users/ben/identities", ""))

	var many strings.Builder
	for n := range 2500 { // more than a chunk
		user := "early"
		if n >= 1250 {
			user = "late"
		}
		many.WriteString(line("email", "n"+strconv.Itoa(n%1250)+"@example.com", user+strconv.Itoa(n%1250)))
	}
	answer := w.must(t, http.StatusOK, http.MethodPost, "/v1/identities:batch", many.String())
	require.Contains(t, answer, `"accepted":1250`)
	require.Equal(t, 1250, strings.Count(answer, `"line":`))
	require.NotContains(t, answer, "early")
}

func TestBadIdentities(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	for name, bad := range map[string]struct {
		method, target, body string
		status               int
		field                string
	}{
		"unknown kind":                  {http.MethodPut, "/v1/identities/fax/1", `{"user":"joe"}`, 422, "kind"},
		"kind in upper case":            {http.MethodGet, "/v1/identities/Email/joe@example.com", "", 422, "kind"},
		"no address":                    {http.MethodPut, "/v1/identities/email/joe", `{"user":"joe"}`, 422, "value"},
		"a display name":                {http.MethodGet, "/v1/identities/email/Joe%20%3Cjoe@example.com%3E", "", 422, "value"},
		"a number without +":            {http.MethodDelete, "/v1/identities/phone/4155552671", "", 422, "value"},
		"not UTF-8":                     {http.MethodGet, "/v1/identities/handle/%ff", "", 422, "value"},
		"too long a value":              {http.MethodGet, "/v1/identities/handle/" + strings.Repeat("h", 65), "", 422, "value"},
		"no segment":                    {http.MethodGet, "/v1/identities/email/", "", 404, ""},
		"two segments":                  {http.MethodGet, "/v1/identities/url/https%3A/example.com", "", 404, ""},
		"no user":                       {http.MethodPut, joe, `{}`, 422, "user"},
		"a bad user":                    {http.MethodPut, joe, `{"user":"a/b"}`, 422, "user"},
		"an unknown field":              {http.MethodPut, joe, `{"usr":"joe"}`, 400, "usr"},
		"a user of another type":        {http.MethodPut, joe, `{"user":7}`, 400, "user"},
		"no body":                       {http.MethodPut, joe, ``, 400, ""},
		"deleted from a bad user":       {http.MethodDelete, joe + "?user=a%20b", "", 422, "user"},
		"deleted from an empty user":    {http.MethodDelete, joe + "?user=", "", 422, "user"},
		"deleted from two users":        {http.MethodDelete, joe + "?user=a&user=b", "", 422, "user"},
		"an unknown parameter":          {http.MethodGet, joe + "?user=joe", "", 422, "user"},
		"lookup of no kind":             {http.MethodPost, "/v1/identities:lookup", `{"value":"joe@example.com"}`, 422, "kind"},
		"lookup of no value":            {http.MethodPost, "/v1/identities:lookup", `{"kind":"email"}`, 422, "value"},
		"lookup of an unknown kind":     {http.MethodPost, "/v1/identities:lookup", `{"kind":"fax","value":"1"}`, 422, "kind"},
		"lookup of a malformed value":   {http.MethodPost, "/v1/identities:lookup", `{"kind":"email","value":"joe"}`, 422, "value"},
		"lookup with an unknown field":  {http.MethodPost, "/v1/identities:lookup", `{"email":"joe@example.com"}`, 400, "email"},
		"lookup that is too large":      {http.MethodPost, "/v1/identities:lookup", `{"kind":"` + strings.Repeat("k", 5000) + `"}`, 413, ""},
		"lookup by GET":                 {http.MethodGet, "/v1/identities:lookup", "", 405, ""},
		"identities of a bad user":      {http.MethodGet, "/v1/users/a%20b/identities", "", 422, "user"},
		"identities with a parameter":   {http.MethodGet, "/v1/users/joe/identities?limit=1", "", 422, "limit"},
		"identities cannot be put":      {http.MethodPut, "/v1/users/joe/identities", "", 405, ""},
		"a longer path than identities": {http.MethodGet, "/v1/users/joe/identities/", "", 404, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answer := w.ask(t, bad.method, bad.target, bad.body)
			require.Equal(t, bad.status, answer.Code, answer.Body)
			p := problem(t, answer)
			require.Equal(t, bad.field, p.Field, p.Detail)
		})
	}
}

// To a token that does not list a kind, every identity of the kind is unknown, and cannot be changed.
func TestKindsOfTokens(t *testing.T) {
	t.Parallel()
	w := guarded(t, settings{})
	const phone, body = "/v1/identities/phone/%2B14155552671", `{"user":"bob"}`
	w.must(t, http.StatusNoContent, http.MethodPut, joe, body, as("operator")...)
	w.must(t, http.StatusNoContent, http.MethodPut, phone, body, as("operator")...)
	absent := w.must(t, http.StatusNotFound, http.MethodGet, "/v1/identities/phone/%2B14155552672", "", as("operator")...)
	for _, hidden := range []string{
		w.must(t, http.StatusNotFound, http.MethodGet, phone, "", as("mailer")...),
		w.must(t, http.StatusNotFound, http.MethodPost, "/v1/identities:lookup", `{"kind":"phone","value":"+14155552671"}`, as("mailer")...),
	} {
		require.Equal(t, absent, hidden)
	}
	w.must(t, http.StatusForbidden, http.MethodPut, phone, body, as("mailer")...)
	w.must(t, http.StatusForbidden, http.MethodDelete, phone, "", as("mailer")...)
	batch := `{"kind":"phone","value":"+14155552671","user":"bob"}` + "\n" + `{"kind":"email","value":"joe@example.com","user":"bob"}`
	require.JSONEq(t, `{"accepted":1,"rejected":[{"line":1,"error":"the token does not list the kind \"phone\" among its identities"}]}`,
		w.must(t, http.StatusOK, http.MethodPost, "/v1/identities:batch", batch, as("mailer")...))
	for who, want := range map[string]string{
		"operator": `[{"kind":"email","value":"joe@example.com"},{"kind":"phone","value":"+14155552671"}]`,
		"mailer":   `[{"kind":"email","value":"joe@example.com"}]`,
		"bob":      `[{"kind":"phone","value":"+14155552671"}]`,
		"gateway":  `[]`,
	} {
		require.JSONEq(t, `{"identities":`+want+`}`, w.must(t, http.StatusOK, http.MethodGet, "/v1/users/bob/identities", "", as(who)...), who)
	}
	w.must(t, http.StatusForbidden, http.MethodGet, "/v1/users/bob/identities", "", as("cy")...)
	w.must(t, http.StatusForbidden, http.MethodGet, joe, "", as("bob")...)
}

// No value of an identity is in the log, a metric or a span, whatever is asked, and whatever fails.
func TestValuesStayOutOfTheLog(t *testing.T) {
	t.Parallel()
	const value = "s3cret"
	measured, spans := prometheus.NewRegistry(), tracetest.NewInMemoryExporter()
	broken := false
	w := newWorld(t, settings{
		options: func(o *httpapi.Options) {
			o.Metrics, o.Tracer = measured, tracing.New(sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)))
		},
		identities: func(s identity.Store) identity.Store { return breakable{Store: s, broken: &broken} },
	})
	for _, broken = range []bool{false, true} {
		for _, kind := range []string{"email", "handle", "fax", value} {
			for _, form := range []string{value + "@example.com", value, "%3C" + value} {
				target := "/v1/identities/" + kind + "/" + form
				object := `"kind":"` + kind + `","value":"` + strings.ReplaceAll(form, "%3C", "<") + `"`
				for _, ask := range [][3]string{
					{http.MethodPut, target, `{"user":"joe"}`},
					{http.MethodPut, target, `{"user":"ben"}`},
					{http.MethodPut, target, `{"` + value + `":1}`},
					{http.MethodGet, target, ""},
					{http.MethodGet, target + "?" + value + "=" + value, ""},
					{http.MethodPost, "/v1/identities:lookup", `{` + object + `}`},
					{http.MethodPost, "/v1/identities:lookup", `{` + object + `,"` + value + `":1}`},
					{http.MethodPost, "/v1/identities:batch", `{` + object + `,"user":"joe"}` + "\n" + `{` + object + `,"user":"ben"}` + "\n" + `{` + object},
					{http.MethodGet, "/v1/users/joe/identities", ""},
					{http.MethodDelete, target + "?user=ben", ""},
					{http.MethodDelete, target, ""},
					{http.MethodPost, target, ""},
					{http.MethodGet, target + "/" + value, ""},
				} {
					r := httptest.NewRequestWithContext(t.Context(), ask[0], ask[1], strings.NewReader(ask[2]))
					answer := httptest.NewRecorder()
					w.handler.ServeHTTP(answer, r)
					require.NotEqual(t, http.StatusInternalServerError, answer.Code, "%v: %s", ask, answer.Body)
				}
			}
		}
	}
	require.Contains(t, w.log.String(), `"pattern":"/v1/identities/{kind}/{value}"`)
	require.Contains(t, w.log.String(), "a request could not be finished")
	require.NotContains(t, strings.ToLower(w.log.String()), value)
	require.NotContains(t, metricsText(t, measured), value)
	require.NotEmpty(t, spans.GetSpans())
	for _, span := range spans.GetSpans() {
		require.NotContains(t, span.Name, value)
		for _, a := range span.Attributes {
			require.NotContains(t, a.Value.String(), value)
		}
		require.NotContains(t, span.Status.Description, value)
		require.Empty(t, span.Events)
	}
}

// In to, users and identities stand side by side, and errors name the place in to.
func TestMessagesToIdentities(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	w.must(t, http.StatusNoContent, http.MethodPut, joe, `{"user":"joe"}`)
	to := func(list string) string { return `{"from":"ann","to":[` + list + `],"body":"x"}` }
	const email = `{"email":"Joe@Example.com"}`
	answer := w.must(t, http.StatusAccepted, http.MethodPost, "/v1/messages", to(email+`,"ben"`), client.IdempotencyKeyHeader, "key")
	stored, err := w.db.Messages().Naming(t.Context(), "joe", message.ID{}, message.MaxID, message.OldestFirst, 10)
	require.NoError(t, err)
	require.Len(t, stored, 1)
	require.Equal(t, []message.UserID{"ben", "joe"}, stored[0].To)
	require.Contains(t, w.must(t, http.StatusOK, http.MethodGet, "/v1/messages/"+stored[0].ID.String(), ""), `"to":["ben","joe"]`)

	w.must(t, http.StatusNoContent, http.MethodDelete, joe, "")
	require.Equal(t, answer, w.must(t, http.StatusAccepted, http.MethodPost, "/v1/messages", to(email+`,"ben"`), client.IdempotencyKeyHeader, "key"))
	require.Contains(t, w.must(t, http.StatusUnprocessableEntity, http.MethodPost, "/v1/messages", to(email), client.IdempotencyKeyHeader, "key"), string(client.ProblemKeyReused))
	w.must(t, http.StatusNoContent, http.MethodPut, joe, `{"user":"joe"}`)
	for list, want := range map[string]struct {
		field  string
		status int
	}{
		email + `,"ben",{"email":"nobody@example.com"}`: {"to[2]", 422},
		`{"fax":"1"},"ben"`:                             {"to[0]", 422},
		`"ben",{"email":"joe"},"cy"`:                    {"to[1]", 422},
		email + `,"a b"`:                                {"to[1]", 422},
		email + `,""`:                                   {"to[1]", 422},
		`"ben",{}`:                                      {"to[1]", 400},
		`{"email":"joe@example.com","phone":"+1"}`:      {"to[0]", 400},
		`{"email":7}`:                                   {"to[0]", 400},
		email + `,7`:                                    {"to", 400},
	} {
		refused := w.ask(t, http.MethodPost, "/v1/messages", to(list))
		require.Equal(t, want.status, refused.Code, "%s: %s", list, refused.Body)
		require.Equal(t, want.field, problem(t, refused).Field, list)
	}
	lines := w.must(t, http.StatusOK, http.MethodPost, "/v1/messages:batch", to(`"ben",`+email)+"\n"+to(`{"email":"nobody@example.com"},"ben"`)+"\n"+to(`"ben"`))
	require.Equal(t, 2, strings.Count(lines, `"sent"`), lines)
	require.Contains(t, lines, `"field":"to[0]"`)

	w.must(t, http.StatusAccepted, http.MethodPost, "/v1/messages", to(`"ben"`))
	require.NotContains(t, strings.ToLower(w.log.String()), "example.com")
}

// An identity that the token may not address is as unknown as one that no user has.
func TestMessagesToForbiddenKinds(t *testing.T) {
	t.Parallel()
	w := guarded(t, settings{})
	w.must(t, http.StatusNoContent, http.MethodPut, joe, `{"user":"bob"}`, as("operator")...)
	draft := func(name string) string {
		return `{"from":"dee","to":["bob",{"email":"` + name + `@example.com"}],"body":"x"}`
	}
	forbidden := w.must(t, http.StatusUnprocessableEntity, http.MethodPost, "/v1/messages", draft("joe"), as("dee")...)
	require.Equal(t, w.must(t, http.StatusUnprocessableEntity, http.MethodPost, "/v1/messages", draft("nobody"), as("dee")...), forbidden)
	require.Contains(t, forbidden, `"field":"to[1]"`)
	send := strings.ReplaceAll(draft("joe"), "dee", "ann")
	w.must(t, http.StatusAccepted, http.MethodPost, "/v1/messages", send, as("ann")...)
}

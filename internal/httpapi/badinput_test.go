package httpapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/httpapi"
	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

// badInput is a request that must be refused.
type badInput struct {
	name, method, target, body string
	status                     int
	headers                    []string
}

func draft(fields string) string { return `{"from":"ann","to":["bob"],` + fields + `}` }

func badInputs() []badInput {
	const (
		messages = "/v1/messages"
		post     = http.MethodPost
		put      = http.MethodPut
		get      = http.MethodGet
		remove   = http.MethodDelete
	)
	long := strings.Repeat("u", message.MaxUserIDBytes+1)
	limits := smallLimits()
	tooMany := `{"from":"ann","body":"x","to":["a"` + strings.Repeat(`,"a"`, limits.Recipients) + `]}`
	foreign := bucket.Cursor{ID: messagetest.ID(3)}.Encode("zoe")
	ahead := bucket.Cursor{ID: messagetest.ID(3), Sequence: 9}.Encode("bob")
	id := messagetest.ID(1).String()
	return []badInput{
		{"user id: empty sender", post, messages, `{"to":["bob"],"body":"x"}`, 422, nil},
		{"user id: sender too long", post, messages, `{"from":"` + long + `","to":["bob"],"body":"x"}`, 422, nil},
		{"user id: sender with a slash", post, messages, `{"from":"a/b","to":["bob"],"body":"x"}`, 422, nil},
		{"user id: sender with white space", post, messages, `{"from":"a b","to":["bob"],"body":"x"}`, 422, nil},
		{"user id: sender with a control character", post, messages, `{"from":"a\u0000b","to":["bob"],"body":"x"}`, 422, nil},
		{"user id: sender is a dot", post, messages, `{"from":".","to":["bob"],"body":"x"}`, 422, nil},
		{"user id: recipient is two dots", post, messages, `{"from":"ann","to":["bob",".."],"body":"x"}`, 422, nil},
		{"user id: recipient is null", post, messages, `{"from":"ann","to":[null],"body":"x"}`, 422, nil},
		{"user id: half a surrogate pair", post, messages, `{"from":"\ud800","to":["bob"],"body":"x"}`, 400, nil},
		{"user id: half a surrogate pair before an escape", post, messages, `{"from":"\ud800\u0041","to":["bob"],"body":"x"}`, 400, nil},
		{"user id: too long in the path", put, "/v1/users/" + long + "/following/bob", "", 422, nil},
		{"user id: white space in the path", put, "/v1/users/a%20b/following/bob", "", 422, nil},
		{"user id: control character in the path", get, "/v1/users/a%00b", "", 422, nil},
		{"user id: not UTF-8 in the path", get, "/v1/users/%ff/inbox", "", 422, nil},
		{"body: over its limit", post, messages, draft(`"body":"` + strings.Repeat("x", limits.BodyBytes+1) + `"`), 422, nil},
		{"body: neither body nor attrs", post, messages, draft(`"body":""`), 422, nil},
		{"attrs: over their limit", post, messages, draft(`"body":"x","attrs":{"a":"` + strings.Repeat("x", limits.AttrsBytes) + `"}`), 422, nil},
		{"attrs: no object", post, messages, draft(`"body":"x","attrs":[1]`), 422, nil},
		{"content_type: no media type", post, messages, draft(`"body":"x","content_type":"text/"`), 422, nil},
		{"recipients: none", post, messages, `{"from":"ann","body":"x"}`, 422, nil},
		{"recipients: too many", post, messages, tooMany, 422, nil},
		{"audience: unknown", post, messages, draft(`"body":"x","audience":"everyone"`), 422, nil},
		{"following oneself", put, "/v1/users/ann/following/ann", "", 422, nil},
		{"unfollowing oneself", remove, "/v1/users/ann/following/ann", "", 422, nil},
		{"JSON: empty", post, messages, ``, 400, nil},
		{"JSON: broken", post, messages, `{"from":"ann",}`, 400, nil},
		{"JSON: cut off", post, messages, `{"from":"ann","to":["b`, 400, nil},
		{"JSON: null", post, messages, `null`, 400, nil},
		{"JSON: an array", post, messages, `[]`, 400, nil},
		{"JSON: two objects", post, messages, draft(`"body":"x"`) + draft(`"body":"y"`), 400, nil},
		{"JSON: something after the object", post, messages, draft(`"body":"x"`) + ` x`, 400, nil},
		{"JSON: not UTF-8", post, messages, draft("\"body\":\"\xff\""), 400, nil},
		{"JSON: too deep", post, messages, draft(`"body":"x","attrs":` + strings.Repeat(`[`, 10_050)), 400, nil},
		{"unknown field", post, messages, draft(`"body":"x","subject":"y"`), 400, nil},
		{"unknown field of a view", put, "/v1/users/bob", `{"seen":"now"}`, 400, nil},
		{"field in another case", post, messages, `{"From":"ann","to":["bob"],"body":"x"}`, 400, nil},
		{"field in two cases", post, messages, `{"from":"ann","FROM":"bob","to":["bob"],"body":"x"}`, 400, nil},
		{"field in two cases, the right one last", post, messages, `{"FROM":"bob","from":"ann","to":["bob"],"body":"x"}`, 400, nil},
		{"field in a letter that folds", post, messages, draft(`"body":"x","attrſ":{}`), 400, nil},
		{"field twice", post, messages, draft(`"body":"x","from":"bob"`), 400, nil},
		{"field twice, once escaped", post, messages, draft(`"body":"x","\u0066rom":"bob"`), 400, nil},
		{"field twice, after attrs", post, messages, draft(`"body":"x","attrs":{"to":["dora"]},"to":["dora"]`), 400, nil},
		{"field twice, with the same value", post, messages, draft(`"body":"x","body":"x"`), 400, nil},
		{"identity twice in an object", post, messages, `{"from":"ann","to":[{"email":"a@example.com","email":"b@example.com"}],"body":"x"}`, 400, nil},
		{"field twice in a view", put, "/v1/users/bob", `{"last_viewed":"2026-01-02T03:04:05Z","last_viewed":"2026-01-02T03:04:06Z"}`, 400, nil},
		{"field twice in a purge", post, "/v1/users/bob/inbox:purge", `{"until":"2026-01-02T15:04:05Z","dry_run":true,"dry_run":false}`, 400, nil},
		{"field twice in a read mark", post, "/v1/users/bob/inbox/read", `{"up_to":"` + id + `","up_to":"` + id + `"}`, 400, nil},
		{"field in another case of a retention", put, "/v1/users/bob/retention", `{"newest":1,"NEWEST":2}`, 400, nil},
		{"field twice in a count", post, "/v1/inboxes:counts", `{"users":["bob"],"users":["dora"]}`, 400, nil},
		{"field twice in an identity", put, "/v1/identities/email/joe@example.com", `{"user":"ann","user":"bob"}`, 400, nil},
		{"field twice in a lookup", post, "/v1/identities:lookup", `{"kind":"email","Kind":"phone","value":"joe@example.com"}`, 400, nil},
		{"wrong type: number for a string", post, messages, draft(`"body":5`), 400, nil},
		{"wrong type: boolean for a string", post, messages, `{"from":true,"to":["bob"],"body":"x"}`, 400, nil},
		{"wrong type: string for an array", post, messages, `{"from":"ann","to":"bob","body":"x"}`, 400, nil},
		{"wrong type: object in an array", post, messages, `{"from":"ann","to":[{}],"body":"x"}`, 400, nil},
		{"wrong type: number for an id", post, "/v1/users/bob/inbox/read", `{"up_to":7}`, 400, nil},
		{"cursor: of another inbox", get, "/v1/users/bob/inbox?before=" + foreign, "", 422, nil},
		{"cursor: forged", get, "/v1/users/bob/inbox?before=AAAA", "", 422, nil},
		{"cursor: no base64", get, "/v1/users/bob/inbox?before=%21%21", "", 422, nil},
		{"cursor: empty", get, "/v1/users/bob/inbox?before=", "", 422, nil},
		{"cursor: ahead of the inbox", get, "/v1/users/bob/inbox?before=" + ahead, "", 422, nil},
		{"cursor: no user id", get, "/v1/users/bob/followers?after=a%2Fb", "", 422, nil},
		{"limit: 0", get, "/v1/users/bob/inbox?limit=0", "", 422, nil},
		{"limit: 201", get, "/v1/users/bob/inbox?limit=201", "", 422, nil},
		{"limit: negative", get, "/v1/users/bob/followers?limit=-1", "", 422, nil},
		{"limit: no number", get, "/v1/users/bob/following?limit=ten", "", 422, nil},
		{"limit: too large for a number", get, "/v1/users/bob/inbox?limit=99999999999999999999", "", 422, nil},
		{"limit: twice", get, "/v1/users/bob/inbox?limit=1&limit=2", "", 422, nil},
		{"peek: neither true nor false", get, "/v1/users/bob/inbox?peek=1", "", 422, nil},
		{"since: empty", get, "/v1/users/bob/inbox?since=", "", 422, nil},
		{"since: no time", get, "/v1/users/bob/inbox?since=yesterday", "", 422, nil},
		{"since: before 1970", get, "/v1/users/bob/inbox?since=1969-12-31T23:59:59Z", "", 422, nil},
		{"until: no time", get, "/v1/users/bob/inbox?until=7", "", 422, nil},
		{"until: not after since", get, "/v1/users/bob/inbox?since=2026-01-02T00:00:00Z&until=2026-01-02T00:00:00Z", "", 422, nil},
		{"by: empty", get, "/v1/users/bob/inbox/counts?by=", "", 422, nil},
		{"by: unknown", get, "/v1/users/bob/inbox/counts?by=sender", "", 422, nil},
		{"by: an attribute that is not declared", get, "/v1/users/bob/inbox/counts?by=attr:kind", "", 422, nil},
		{"by: twice", get, "/v1/users/bob/inbox/counts?by=from&by=from", "", 422, nil},
		{"by: with a condition", get, "/v1/users/bob/inbox/counts?by=from&unread=true", "", 422, nil},
		{"by: another method", remove, "/v1/users/bob/inbox/counts", "", 405, nil},
		{"query: unknown parameter", get, "/v1/users/bob/inbox?page=2", "", 422, nil},
		{"query: parameter where there is none", get, "/v1/users/bob?limit=2", "", 422, nil},
		{"query: malformed", get, "/v1/users/bob/inbox?limit=%zz", "", 400, nil},
		{"idempotency key: with another body", post, messages, draft(`"body":"another"`), 422, []string{"Idempotency-Key", "used"}},
		{"idempotency key: empty", post, messages, draft(`"body":"x"`), 422, []string{"Idempotency-Key", ""}},
		{"idempotency key: too long", post, messages, draft(`"body":"x"`), 422, []string{"Idempotency-Key", strings.Repeat("k", 256)}},
		{"id: no UUID", get, "/v1/messages/7", "", 422, nil},
		{"id: UUID of another version", get, "/v1/messages/6ba7b810-9dad-41d1-80b4-00c04fd430c8", "", 422, nil},
		{"id: unknown", get, "/v1/messages/" + id, "", 404, nil},
		{"delete: not in the inbox", remove, "/v1/users/bob/inbox/" + messagetest.ID(999).String(), "", 404, nil},
		{"delete: no UUID", remove, "/v1/users/bob/inbox/7", "", 422, nil},
		{"read: no id", post, "/v1/users/bob/inbox/read", `{}`, 422, nil},
		{"read: user never seen", post, "/v1/users/ann/inbox/read", `{"up_to":"` + id + `"}`, 404, nil},
		{"purge: in the future", post, "/v1/users/bob/inbox:purge", `{"until":"2126-01-02T15:04:05Z"}`, 422, nil},
		{"purge: before 1970", post, "/v1/users/bob/inbox:purge", `{"until":"1969-01-02T15:04:05Z"}`, 422, nil},
		{"purge: no time", post, "/v1/users/bob/inbox:purge", `{"until":"now"}`, 422, nil},
		{"purge: missing time", post, "/v1/users/bob/inbox:purge", `{}`, 422, nil},
		{"purge: unknown field", post, "/v1/users/bob/inbox:purge", `{"until":"2026-01-02T15:04:05Z","dryrun":true}`, 400, nil},
		{"purge: wrong type", post, "/v1/users/bob/inbox:purge", `{"until":"2026-01-02T15:04:05Z","dry_run":"true"}`, 400, nil},
		{"purge: user never seen", post, "/v1/users/ann/inbox:purge", `{"until":"2001-01-01T00:00:00Z"}`, 404, nil},
		{"retention: nothing", put, "/v1/users/bob/retention", `{}`, 422, nil},
		{"retention: null", put, "/v1/users/bob/retention", `{"max_age":null}`, 422, nil},
		{"retention: no duration", put, "/v1/users/bob/retention", `{"max_age":"a month"}`, 422, nil},
		{"retention: no age", put, "/v1/users/bob/retention", `{"max_age":"0s","newest":1}`, 422, nil},
		{"retention: negative age", put, "/v1/users/bob/retention", `{"max_age":"-720h"}`, 422, nil},
		{"retention: too short", put, "/v1/users/bob/retention", `{"max_age":"3m59s"}`, 422, nil},
		{"retention: parts of a millisecond", put, "/v1/users/bob/retention", `{"max_age":"1h1us"}`, 422, nil},
		{"retention: nothing is kept", put, "/v1/users/bob/retention", `{"newest":0}`, 422, nil},
		{"retention: negative number", put, "/v1/users/bob/retention", `{"newest":-1}`, 422, nil},
		{"retention: too large a number", put, "/v1/users/bob/retention", `{"newest":9223372036854775808}`, 400, nil},
		{"retention: no whole number", put, "/v1/users/bob/retention", `{"newest":1.5}`, 400, nil},
		{"retention: wrong type", put, "/v1/users/bob/retention", `{"max_age":720}`, 400, nil},
		{"retention: unknown field", put, "/v1/users/bob/retention", `{"newest":1,"oldest":1}`, 400, nil},
		{"user never seen", get, "/v1/users/ann", "", 404, nil},
		{"last_viewed: missing", put, "/v1/users/bob", `{}`, 422, nil},
		{"last_viewed: no time", put, "/v1/users/bob", `{"last_viewed":"yesterday"}`, 422, nil},
		{"last_viewed: in the future", put, "/v1/users/bob", `{"last_viewed":"2030-01-01T00:00:00Z"}`, 422, nil},
		{"last_viewed: an hour of one digit", put, "/v1/users/bob", `{"last_viewed":"2026-01-02T3:04:05Z"}`, 422, nil},
		{"last_viewed: after the year 9999 in UTC", put, "/v1/users/bob", `{"last_viewed":"9999-12-31T23:59:59-01:00"}`, 422, nil},
		{"since: after the year 9999 in UTC", get, "/v1/users/bob/inbox?since=9999-12-31T23:59:59-01:00", "", 422, nil},
		{"last_viewed: before 1970", put, "/v1/users/bob", `{"last_viewed":"1960-01-01T00:00:00Z"}`, 422, nil},
		{"last_viewed: backwards", put, "/v1/users/bob", `{"last_viewed":"2026-01-01T00:00:00Z"}`, 409, nil},
		{"last_viewed: backwards, of a dormant user", put, "/v1/users/dora", `{"last_viewed":"2025-01-01T00:00:00Z"}`, 409, nil},
		{"login: no user id", post, "/v1/users/a%20b/login", "", 422, nil},
		{"login: of a user whose id is too long", post, "/v1/users/" + long + "/login", "", 422, nil},
		{"login: another method", get, "/v1/users/dora/login", "", 405, nil},
		{"login: longer path", post, "/v1/users/dora/login/", "", 404, nil},
		{"login: unknown parameter", post, "/v1/users/dora/login?timeout=1s", "", 422, nil},
		{"wait: empty", post, "/v1/users/dora/login?wait=", "", 422, nil},
		{"wait: without a unit", post, "/v1/users/dora/login?wait=10", "", 422, nil},
		{"wait: no duration", post, "/v1/users/dora/login?wait=soon", "", 422, nil},
		{"wait: negative", post, "/v1/users/dora/login?wait=-1s", "", 422, nil},
		{"wait: too long", post, "/v1/users/dora/login?wait=60001ms", "", 422, nil},
		{"wait: too long for a number", post, "/v1/users/dora/login?wait=99999999999h", "", 422, nil},
		{"wait: twice", post, "/v1/users/dora/login?wait=1s&wait=1s", "", 422, nil},
		{"list: unknown state", get, "/v1/messages?state=Done", "", 422, nil},
		{"list: two states", get, "/v1/messages?state=done&state=dead", "", 422, nil},
		{"list: empty author", get, "/v1/messages?from=", "", 422, nil},
		{"list: no cursor", get, "/v1/messages?after=7", "", 422, nil},
		{"list: limit too high", get, "/v1/messages?limit=201", "", 422, nil},
		{"partitions: neither true nor false", get, "/v1/messages/" + id + "?partitions=1", "", 422, nil},
		{"method: not there", remove, messages, "", 405, nil},
		{"method: of a longer path", get, "/v1/users/bob/inbox/read", "", 405, nil},
		{"method: unknown", "BREW", "/v1/users/bob", "", 405, nil},
		{"request: too large", post, "/v1/users/bob/inbox/read", `{"up_to":"` + strings.Repeat("x", 5000) + `"}`, 413, nil},
		{"content type: a form", post, messages, draft(`"body":"x"`), 415, []string{"Content-Type", "application/x-www-form-urlencoded"}},
		{"content type: another charset", post, messages, draft(`"body":"x"`), 415, []string{"Content-Type", "application/json; charset=latin1"}},
		{"content encoding: gzip", post, messages, draft(`"body":"x"`), 415, []string{"Content-Encoding", "gzip"}},
	}
}

func smallLimits() message.Limits {
	return message.Limits{BodyBytes: 100, AttrsBytes: 50, Recipients: 3}
}

// badWorld has bob, who is active and has three messages, and dora, who is dormant.
func badWorld(tb testing.TB) *world {
	tb.Helper()
	w := newWorld(tb, settings{options: func(o *httpapi.Options) { o.Limits = smallLimits() }})
	w.pass(-60 * 24 * 3600e9)
	w.see(tb, "dora")
	w.pass(60 * 24 * 3600e9)
	w.see(tb, "bob")
	w.deliver(tb, "bob", 1, 3)
	w.must(tb, http.StatusAccepted, http.MethodPost, "/v1/messages", draft(`"body":"first"`), client.IdempotencyKeyHeader, "used")
	return w
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	w := badWorld(t)
	before := w.contents(t, "ann", "bob", "dora")
	var table strings.Builder
	for _, bad := range badInputs() {
		answer := w.ask(t, bad.method, bad.target, bad.body, bad.headers...)
		require.Equal(t, bad.status, answer.Code, "%s: %s", bad.name, answer.Body)
		p := problem(t, answer)
		require.Equal(t, bad.status == http.StatusMethodNotAllowed, answer.Header().Get("Allow") != "", bad.name)
		require.Equal(t, before, w.contents(t, "ann", "bob", "dora"), "%s changes nothing", bad.name)
		fmt.Fprintf(&table, "%s\n\t%d %s", bad.name, p.Status, strings.TrimPrefix(string(p.Type), "urn:fanmail:problem:"))
		if p.Field != "" {
			fmt.Fprintf(&table, " [%s]", p.Field)
		}
		fmt.Fprintf(&table, "\n\t%s\n", p.Detail)
	}
	requireGolden(t, "bad_input.golden", table.String())
}

// attrs belong to the application: names in it may be in any case, and those that are not declared may be there twice.
func TestAttrsBelongToTheApplication(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	const attrs = `{"from":"x","From":"y","from":"z","deep":{"to":1,"to":2}}`
	w.must(t, http.StatusAccepted, http.MethodPost, "/v1/messages", draft(`"body":"x","attrs":`+attrs))
	stored, err := w.db.Messages().Naming(t.Context(), "bob", message.ID{}, message.MaxID, message.OldestFirst, 10)
	require.NoError(t, err)
	require.Len(t, stored, 1)
	require.Equal(t, message.UserID("ann"), stored[0].From)
	require.Equal(t, []byte(attrs), []byte(stored[0].Attrs)) //nolint:testifylint // attributes are kept byte for byte
}

func TestRecipientsNamedTwiceAreTakenOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	w.must(t, http.StatusAccepted, http.MethodPost, "/v1/messages", `{"from":"ann","to":["bob","cy","bob"],"body":"x"}`)
	stored, err := w.db.Messages().Naming(t.Context(), "bob", message.ID{}, message.MaxID, message.OldestFirst, 10)
	require.NoError(t, err)
	require.Len(t, stored, 1)
	require.Equal(t, []message.UserID{"bob", "cy"}, stored[0].To)
}

func TestBadInputInBatches(t *testing.T) {
	t.Parallel()
	w := badWorld(t)
	before := w.contents(t, "ann", "bob", "dora")
	var table strings.Builder
	for _, bad := range []struct{ name, target, body string }{
		{"messages", "/v1/messages:batch", "{\n\n{\"from\":\"ann\"}\n{\"form\":\"ann\"}\n[]\n{} {}\n"},
		{"messages with fields in another case or twice", "/v1/messages:batch", `{"from":"ann","FROM":"bob","to":["bob"],"body":"x"}` + "\n" +
			`{"from":"ann","to":["bob"],"body":"x","body":"y"}` + "\n"},
		{"edges with fields in another case or twice", "/v1/following:batch", `{"follower":"ann","followee":"bob","Follower":"dora"}` + "\n" +
			`{"follower":"ann","followee":"bob","followee":"dora"}` + "\n"},
		{"users with fields twice", "/v1/users:batch", `{"user":"ann","user":"bob","last_viewed":"2026-01-02T03:04:05Z"}` + "\n"},
		{"identities with fields twice", "/v1/identities:batch", `{"kind":"email","value":"a@example.com","user":"ann","user":"bob"}` + "\n"},
		{"topics with fields twice", "/v1/topics:batch", `{"topic":"a","topic":"b"}` + "\n"},
		{"subscriptions with fields twice", "/v1/subscriptions:batch", `{"user":"ann","user":"bob","topic":"a"}` + "\n"},
		{"following", "/v1/following:batch", `{"follower":"ann","followee":"ann"}` + "\n" + `{"follower":"ann"}` + "\n" +
			`{"follower":"ann","followee":5}` + "\n" + strings.Repeat("x", 5000) + "\nnull\n"},
		{"users", "/v1/users:batch", `{"user":"bob","last_viewed":"2026-01-01T00:00:00Z"}` + "\n" + `{"user":"dora","last_viewed":"2025-01-01T00:00:00Z"}` + "\n" +
			`{"user":"bob","last_viewed":"soon"}` + "\n" + `{"user":"..","last_viewed":"2026-01-02T03:04:05Z"}` + "\n" + `{"user":"bob"}`},
	} {
		answer := w.must(t, http.StatusOK, http.MethodPost, bad.target, bad.body)
		fmt.Fprintf(&table, "%s\n%s", bad.name, answer)
		require.Equal(t, before, w.contents(t, "ann", "bob", "dora"), "%s changes nothing", bad.name)
	}
	requireGolden(t, "bad_batches.golden", table.String())
}

package httpapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

// Inboxes are counted in the order of the request, without a trace of it.
func TestCounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	w.see(t, "bob", "cy")
	w.deliver(t, "bob", 1, 60)
	w.must(t, http.StatusNoContent, http.MethodPost, "/v1/users/bob/inbox/read", `{"up_to":"`+messagetest.ID(20).String()+`"}`)
	w.must(t, http.StatusNoContent, http.MethodDelete, "/v1/users/bob/inbox/"+messagetest.ID(30).String(), "")
	before := w.contents(t, "bob", "cy", "nobody")
	answer := w.must(t, http.StatusOK, http.MethodPost, "/v1/inboxes:counts", `{"users":["cy","bob","nobody","bob"]}`)
	bob := `{"user":"bob","total":59,"unread":39,"unseen":59,"archived":0,"complete":true}`
	require.Equal(t, `{"counts":[{"user":"cy","total":0,"unread":0,"unseen":0,"archived":0,"complete":true},`+bob+
		`,{"user":"nobody","total":0,"unread":0,"unseen":0,"archived":0,"complete":false},`+bob+"]}\n", answer)
	require.Equal(t, before, w.contents(t, "bob", "cy", "nobody"))
	require.JSONEq(t, `{"counts":[]}`, w.must(t, http.StatusOK, http.MethodPost, "/v1/inboxes:counts", `{"users":[]}`))

	c, err := client.New(w.serve(t), client.Options{})
	require.NoError(t, err)
	defer c.Close()
	users := make([]message.UserID, client.MaxCountedUsers)
	for i := range users {
		users[i] = message.UserID(fmt.Sprintf("%s-%d", strings.Repeat("<", 120), i)) // each sign takes six bytes
	}
	users[999] = "bob"
	counts, err := c.Counts(t.Context(), users)
	require.NoError(t, err)
	require.Len(t, counts, len(users))
	require.Equal(t, client.InboxCount{User: "bob", Tally: client.Tally{Total: 59, Unread: 39, Unseen: 59}, Complete: true}, counts[999])
}

// One user too many, one that is malformed, or one of others refuses the request.
func TestCountsRefuses(t *testing.T) {
	t.Parallel()
	w := guarded(t, settings{})
	many := `{"users":[` + strings.Repeat(`"bob",`, client.MaxCountedUsers) + `"bob"]}`
	for name, test := range map[string]struct {
		who, body string
		kind      client.ProblemType
		field     string
	}{
		"too many":      {"operator", many, client.ProblemInvalid, "users"},
		"malformed":     {"operator", `{"users":["bob"," "]}`, client.ProblemInvalid, "users[1]"},
		"another user":  {"bob", `{"users":["bob","cy"]}`, client.ProblemForbidden, "users[1]"},
		"another scope": {"watcher", `{"users":["bob"]}`, client.ProblemForbidden, ""},
		"a string":      {"operator", `{"users":"bob"}`, client.ProblemMalformed, "users"},
	} {
		p := problem(t, w.ask(t, http.MethodPost, "/v1/inboxes:counts", test.body, as(test.who)...))
		require.Equal(t, test.kind, p.Type, name)
		require.Equal(t, test.field, p.Field, name)
	}
	w.must(t, http.StatusOK, http.MethodPost, "/v1/inboxes:counts", `{"users":["bob","bob"]}`, as("bob")...)
	w.must(t, http.StatusOK, http.MethodPost, "/v1/inboxes:counts", `{"users":["bob","cy"]}`, as("gateway")...)
}

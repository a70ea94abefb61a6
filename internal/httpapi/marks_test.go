package httpapi_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/client"
)

// Messages are marked one by one, and all that a page knew at once. What arrives later stays as it is.
func TestMarks(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	w.see(t, "bob")
	w.deliver(t, "bob", 1, 3)
	one, two := messagetest.ID(1).String(), messagetest.ID(2).String()
	answer := w.must(t, http.StatusOK, http.MethodPost, "/v1/users/bob/inbox:mark", `{"ids":["`+one+`","`+one+`"],"read":true}`)
	require.JSONEq(t, `{"changed":1,"missing":[]}`, answer)
	answer = w.must(t, http.StatusOK, http.MethodPost, "/v1/users/bob/inbox:mark", `{"ids":["`+two+`","`+messagetest.ID(9).String()+`"],"archived":true}`)
	require.JSONEq(t, `{"changed":1,"missing":["`+messagetest.ID(9).String()+`"]}`, answer)

	page := pageOf(t, w.must(t, http.StatusOK, http.MethodGet, "/v1/users/bob/inbox", ""))
	require.Len(t, page.Messages, 2)
	require.True(t, page.Messages[1].Read)
	require.Equal(t, client.Tally{Total: 2, Unread: 1, Unseen: 2, Archived: 1}, page.Tally)
	all := pageOf(t, w.must(t, http.StatusOK, http.MethodGet, "/v1/users/bob/inbox?archived=all", ""))
	require.Len(t, all.Messages, 3)
	require.True(t, all.Messages[1].Archived)

	w.deliver(t, "bob", 4, 4)
	w.must(t, http.StatusNoContent, http.MethodPost, "/v1/users/bob/inbox/read", `{"all":true,"cursor":"`+page.Cursor+`"}`)
	w.must(t, http.StatusNoContent, http.MethodPost, "/v1/users/bob/inbox/seen", `{"cursor":"`+page.Cursor+`"}`)
	counts := `{"total":3,"unread":1,"unseen":1,"archived":1,"complete":true}`
	require.JSONEq(t, counts, w.must(t, http.StatusOK, http.MethodGet, "/v1/users/bob/inbox/counts", ""))
	w.must(t, http.StatusNoContent, http.MethodPost, "/v1/users/bob/inbox/read", `{"all":true}`)
	w.must(t, http.StatusNoContent, http.MethodPost, "/v1/users/bob/inbox/seen", `{}`)
	counts = `{"total":3,"unread":0,"unseen":0,"archived":1,"complete":true}`
	require.JSONEq(t, counts, w.must(t, http.StatusOK, http.MethodGet, "/v1/users/bob/inbox/counts", ""))
}

// An answer that a client has is not sent again, until anything changes that it shows.
func TestUnchangedAnswers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	w.see(t, "bob")
	w.deliver(t, "bob", 1, 3)
	id := messagetest.ID(1).String()
	tags := make(map[string]bool)
	for _, change := range []func(){
		func() {},
		func() { w.deliver(t, "bob", 4, 4) },
		func() {
			w.must(t, http.StatusOK, http.MethodPost, "/v1/users/bob/inbox:mark", `{"ids":["`+id+`"],"read":true}`)
		},
		func() {
			w.must(t, http.StatusOK, http.MethodPost, "/v1/users/bob/inbox:mark", `{"ids":["`+id+`"],"read":false}`)
		},
		func() {
			w.must(t, http.StatusNoContent, http.MethodPost, "/v1/users/bob/inbox/read", `{"up_to":"`+id+`"}`)
		},
		func() { w.must(t, http.StatusNoContent, http.MethodPost, "/v1/users/bob/inbox/seen", `{}`) },
		func() {
			w.must(t, http.StatusNoContent, http.MethodDelete, "/v1/users/bob/inbox/"+messagetest.ID(2).String(), "")
		},
	} {
		change()
		for _, path := range []string{"/v1/users/bob/inbox", "/v1/users/bob/inbox/counts"} {
			fresh := w.ask(t, http.MethodGet, path, "")
			require.Equal(t, http.StatusOK, fresh.Code)
			tag := fresh.Header().Get("ETag")
			require.NotEmpty(t, tag)
			require.False(t, tags[path+tag], "something has changed")
			tags[path+tag] = true
			same := w.ask(t, http.MethodGet, path, "", "If-None-Match", `"other", W/`+tag)
			require.Equal(t, http.StatusNotModified, same.Code)
			require.Equal(t, tag, same.Header().Get("ETag"))
			require.Empty(t, same.Body.String())
			require.Equal(t, http.StatusOK, w.ask(t, http.MethodGet, path, "", "If-None-Match", `"other"`).Code)
		}
	}
	require.Empty(t, w.ask(t, http.MethodGet, "/v1/users/bob/inbox?unread=true", "").Header().Get("ETag"))
}

func TestMarksThatAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	w.see(t, "bob", "cy")
	page := pageOf(t, w.must(t, http.StatusOK, http.MethodGet, "/v1/users/cy/inbox", ""))
	id := messagetest.ID(1).String()
	many := strings.TrimSuffix(strings.Repeat(`"`+id+`",`, client.MaxMarks+1), ",")
	for name, test := range map[string]struct{ path, body, field string }{
		"no id":                {"inbox:mark", `{"ids":[],"read":true}`, "ids"},
		"too many":             {"inbox:mark", `{"ids":[` + many + `],"read":true}`, "ids"},
		"not an id":            {"inbox:mark", `{"ids":["` + id + `","x"],"read":true}`, "ids[1]"},
		"nothing to change":    {"inbox:mark", `{"ids":["` + id + `"]}`, "read"},
		"all and one":          {"inbox/read", `{"all":true,"up_to":"` + id + `"}`, "up_to"},
		"neither":              {"inbox/read", `{}`, "up_to"},
		"a cursor without all": {"inbox/read", `{"up_to":"` + id + `","cursor":"x"}`, "cursor"},
		"a forged cursor":      {"inbox/read", `{"all":true,"cursor":"x"}`, "cursor"},
		"of another inbox":     {"inbox/seen", `{"cursor":"` + page.Cursor + `"}`, "cursor"},
	} {
		p := problem(t, w.ask(t, http.MethodPost, "/v1/users/bob/"+test.path, test.body))
		require.Equal(t, client.ProblemInvalid, p.Type, name)
		require.Equal(t, test.field, p.Field, name)
	}
	p := problem(t, w.ask(t, http.MethodGet, "/v1/users/bob/inbox?archived=maybe", ""))
	require.Equal(t, "archived", p.Field)
	p = problem(t, w.ask(t, http.MethodPost, "/v1/users/nobody/inbox:mark", `{"ids":["`+id+`"],"read":true}`))
	require.Equal(t, client.ProblemNotFound, p.Type)
}

func pageOf(t *testing.T, body string) (page client.InboxPage) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(body), &page))
	return page
}

package httpapi_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/audit"
	"github.com/fanmail/fanmail/internal/httpapi"
	"github.com/fanmail/fanmail/internal/inbox"
	recorded "github.com/fanmail/fanmail/internal/settings"
	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/client"
)

// attributed returns a server with the attributes total and kind, whose inboxes know them.
func attributed(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, settings{})
	services := w.services
	services.Audit = new(audit.Service) // never called
	var current *recorded.Current
	current, services.Settings = recordedIn(t, w.db.Settings(), w)
	services.Inbox = inbox.New(
		inbox.Stores{Buckets: w.db.Inbox(), Users: w.db.Users(), Appender: w.appender}, services.Rehydrate,
		inbox.Options{Rules: current.Rules, Now: w.clock, Attributes: current.Attributes},
	)
	w.handler = httpapi.New(services, w.options)
	w.must(t, http.StatusCreated, http.MethodPut, "/v1/admin/attributes/total", `{"type":"number"}`)
	w.must(t, http.StatusCreated, http.MethodPut, "/v1/admin/attributes/kind", `{"type":"string"}`)
	return w
}

// TestFilteredInbox filters over HTTP. Bad conditions name the parameter, and are no view.
func TestFilteredInbox(t *testing.T) {
	t.Parallel()
	w := attributed(t)
	w.see(t, "bob")
	var entries []bucket.Entry
	for n, attrs := range []string{`{"total":64,"kind":"a,b"}`, `{"total":65,"kind":"c"}`, `{"total":66}`, `{"kind":"c"}`} {
		entries = append(entries, bucket.Entry{ID: messagetest.ID(n + 1), From: "ann", Body: "x", Attrs: json.RawMessage(attrs)})
	}
	_, err := w.appender.Append(t.Context(), []bucket.Append{{Owner: "bob", Entries: entries}})
	require.NoError(t, err)
	c, err := client.New(w.serve(t), client.Options{})
	require.NoError(t, err)
	defer c.Close()
	shown := func(opts client.InboxOptions) (ns []int) {
		opts.Peek = true
		for m, err := range c.InboxAll(t.Context(), "bob", opts) {
			require.NoError(t, err)
			ns = append(ns, slices.IndexFunc(entries, func(e bucket.Entry) bool { return e.ID == m.ID })+1)
		}
		return ns
	}
	require.Equal(t, []int{3, 2}, shown(client.InboxOptions{Attrs: []string{"total:gt:64"}}))
	require.Equal(t, []int{2}, shown(client.InboxOptions{Attrs: []string{"total:gt:64", "kind:exists:true"}, From: "ann", Unread: true}))
	require.Equal(t, []int{4, 2, 1}, shown(client.InboxOptions{Attrs: []string{`kind:in:c,a\,b`}, Limit: 1}))
	require.Empty(t, shown(client.InboxOptions{From: "ben"}))
	answer := w.ask(t, http.MethodGet, "/v1/users/bob/inbox?peek=true&attr=total:eq:66", "")
	require.Equal(t, []string{"1", "0"}, []string{answer.Header().Get(client.BucketsReadHeader), answer.Header().Get(client.MessagesReadHeader)})

	seen := w.must(t, http.StatusOK, http.MethodGet, "/v1/users/bob", "")
	w.pass(time.Hour)
	for query, field := range map[string]string{
		"attr=totl:eq:1": "attr", "attr=total:eq": "attr", "attr=total:like:1": "attr", "attr=total:eq:one": "attr", "attr=": "attr", "from=": "from",
		"unread=yes": "unread", "from=a&from=b": "from", "attr=total:eq:1&attr=total:eq:1&attr=total:eq:1&attr=total:eq:1&unread=true": "attr", "kind=a": "kind",
	} {
		var p client.Problem
		require.NoError(t, json.Unmarshal([]byte(w.must(t, http.StatusUnprocessableEntity, http.MethodGet, "/v1/users/bob/inbox?"+query, "")), &p))
		require.Equal(t, field, p.Field, query)
	}
	require.Equal(t, seen, w.must(t, http.StatusOK, http.MethodGet, "/v1/users/bob", ""), "none of them was a view")
}

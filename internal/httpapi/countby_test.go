package httpapi_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

// TestCountBy counts an inbox by author and by attributes of several types.
func TestCountBy(t *testing.T) {
	t.Parallel()
	w := attributed(t)
	w.must(t, http.StatusCreated, http.MethodPut, "/v1/admin/attributes/due", `{"type":"time"}`)
	w.must(t, http.StatusCreated, http.MethodPut, "/v1/admin/attributes/paid", `{"type":"bool"}`)
	w.must(t, http.StatusCreated, http.MethodPut, "/v1/admin/attributes/tags", `{"type":"strings"}`)
	w.see(t, "bob", "cy")
	var entries []bucket.Entry
	for n, attrs := range []string{
		`{"total":64.5,"kind":"a,b","due":"2026-01-31T09:00:00+01:00"}`, `{"total":65,"kind":"c","paid":true}`, `{"tags":["x","y","x"]}`, `{"kind":"c","tags":["y"]}`,
	} {
		from := message.UserID("ann")
		if n == 3 {
			from = "eve"
		}
		entries = append(entries, bucket.EntryOf(messagetest.Message(n+1, from)))
		entries[n].Attrs = json.RawMessage(attrs)
	}
	_, err := w.appender.Append(t.Context(), []bucket.Append{{Owner: "bob", Entries: entries}})
	require.NoError(t, err)
	w.must(t, http.StatusNoContent, http.MethodPost, "/v1/users/bob/inbox/read", `{"up_to":"`+messagetest.ID(2).String()+`"}`)
	before := w.contents(t, "bob", "cy", "nobody")
	for by, want := range map[string]string{
		"from":       `{"value":"ann","total":3,"unread":1},{"value":"eve","total":1,"unread":1}`,
		"attr:kind":  `{"value":"c","total":2,"unread":1},{"value":"a,b","total":1,"unread":0},{"value":null,"total":1,"unread":1}`,
		"attr:total": `{"value":null,"total":2,"unread":2},{"value":64.5,"total":1,"unread":0},{"value":65,"total":1,"unread":0}`,
		"attr:due":   `{"value":null,"total":3,"unread":2},{"value":"2026-01-31T08:00:00.000Z","total":1,"unread":0}`,
		"attr:paid":  `{"value":null,"total":3,"unread":2},{"value":true,"total":1,"unread":0}`,
		"attr:tags":  `{"value":"y","total":2,"unread":2},{"value":null,"total":2,"unread":0},{"value":"x","total":1,"unread":1}`,
	} {
		answer := w.ask(t, http.MethodGet, "/v1/users/bob/inbox/counts?by="+by, "")
		require.Equal(t, http.StatusOK, answer.Code, answer.Body)
		require.Equal(t, `{"counts":[`+want+`],"counted":4,"complete":true}`+"\n", answer.Body.String(), by)
		require.Equal(t, []string{"1", "0"}, []string{answer.Header().Get(client.BucketsReadHeader), answer.Header().Get(client.MessagesReadHeader)})
	}
	require.JSONEq(t, `{"counts":[],"counted":0,"complete":true}`, w.must(t, http.StatusOK, http.MethodGet, "/v1/users/cy/inbox/counts?by=from", ""))
	w.must(t, http.StatusNotFound, http.MethodGet, "/v1/users/nobody/inbox/counts?by=attr:kind", "")
	require.Equal(t, before, w.contents(t, "bob", "cy", "nobody"), "none of them was a view")
	p := problem(t, w.ask(t, http.MethodGet, "/v1/users/bob/inbox/counts?by=attr:kinds", ""))
	require.Equal(t, "by", p.Field)
	require.Equal(t, `by names the attribute "kinds", which is not declared: do you mean kind?`, p.Detail)

	c, err := client.New(w.serve(t), client.Options{})
	require.NoError(t, err)
	defer c.Close()
	counts, err := c.CountByAuthor(t.Context(), "bob")
	require.NoError(t, err)
	require.Equal(t, client.ValueCounts{
		Counts: []client.ValueCount{{Value: "ann", Total: 3, Unread: 1}, {Value: "eve", Total: 1, Unread: 1}}, Counted: 4, Complete: true,
	}, counts)
	counts, err = c.CountByAttribute(t.Context(), "bob", "total")
	require.NoError(t, err)
	require.Equal(t, []client.ValueCount{{Total: 2, Unread: 2}, {Value: 64.5, Total: 1}, {Value: 65.0, Total: 1}}, counts.Counts)
	_, err = c.CountByAttribute(t.Context(), "bob", "a&by=from")
	refused, ok := errors.AsType[*client.Problem](err)
	require.True(t, ok)
	require.Equal(t, client.ProblemInvalid, refused.Type)
}

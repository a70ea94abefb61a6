package httpapi_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/config"
	"github.com/fanmail/fanmail/internal/audit"
	"github.com/fanmail/fanmail/internal/httpapi"
	"github.com/fanmail/fanmail/internal/inbox"
	"github.com/fanmail/fanmail/internal/pebblestore"
	recorded "github.com/fanmail/fanmail/internal/settings"
	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/attribute"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// recordedIn opens the recorded settings in a store, as a process with the default configuration does.
func recordedIn(t *testing.T, store recorded.Store, w *world) (*recorded.Current, *recorded.Service) {
	t.Helper()
	proposed := config.Default().Recorded()
	current, err := recorded.New(recorded.Options{
		Configured: proposed.Texts(), Process: recorded.Process{Name: "here-1", Role: "rehydrator"}, Logger: zerolog.Nop(),
		Parse: func(changed map[string]string) (recorded.Values, error) {
			r, err := proposed.With(changed)
			if invalid, ok := errors.AsType[*config.InvalidError](err); ok {
				err = &message.InvalidError{Field: invalid.Key, Reason: invalid.Reason}
			}
			return recorded.Values{
				Rules:  userstate.Rules{DormantAfter: r.DormantAfter, ClockTolerance: r.ClockTolerance, PublishSlack: r.PublishSlack},
				KeyTTL: r.KeyTTL, BucketSize: r.BucketSize, Texts: r.Texts(), Numbers: r.Numbers(),
				Retention: userstate.Retention{MaxAge: r.MaxAge, Newest: int64(r.Newest)}, Canonical: r.Canonical,
			}, err
		},
	})
	require.NoError(t, err)
	require.NoError(t, current.Open(t.Context(), store))
	return current, recorded.NewService(current, recorded.ServiceOptions{
		Now: w.clock,
	})
}

// TestSettings upgrades a store that the previous release wrote, and changes a setting.
func TestSettings(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	files := vfs.NewMem()
	engine, err := pebble.Open("store", &pebble.Options{FS: files})
	require.NoError(t, err)
	require.NoError(t, engine.Set([]byte("!"), []byte{2, 0xa2, 1, partitions, 2, 0x18, 50}, pebble.Sync))
	require.NoError(t, engine.Close())
	old, err := pebblestore.Open(t.Context(), "store", pebblestore.Options{Partitions: partitions, FS: files, Now: w.clock, Logger: zerolog.Nop()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, old.Close()) })
	services := w.services
	services.Audit = new(audit.Service) // never called
	var current *recorded.Current
	current, services.Settings = recordedIn(t, old.Settings(), w)
	w.handler = httpapi.New(services, w.options)
	problem := func(status int, method, target, body string) client.Problem {
		var p client.Problem
		require.NoError(t, json.Unmarshal([]byte(w.must(t, status, method, target, body)), &p))
		return p
	}

	require.Contains(t, w.must(t, http.StatusOK, http.MethodGet, "/v1/admin/settings", ""), `{"key":"dormant_after","configured":"720h"}`)
	p := problem(http.StatusConflict, http.MethodPut, "/v1/admin/settings/dormant_after", `{"value":"60d","confirm":true}`)
	require.Equal(t, client.ProblemUpgrade, p.Type)
	require.Equal(t, "the database is of format level 1, and this needs 2: run fanmail admin upgrade", p.Detail)
	p = problem(http.StatusConflict, http.MethodPost, "/v1/admin/upgrade", "")
	require.Equal(t, client.ProblemUnconfirmed, p.Type)
	_, err = old.Settings().Report(t.Context(), recorded.Process{Name: "old-1", Role: "publisher", Level: 1})
	require.NoError(t, err)
	p = problem(http.StatusConflict, http.MethodPost, "/v1/admin/upgrade", `{"confirm":true}`)
	require.Equal(t, client.ProblemConflict, p.Type)
	require.Contains(t, p.Detail, "the process old-1 (publisher), last seen at 2026-01-02T03:04:05Z, knows format level 1 only")
	require.JSONEq(t, `{"processes":[{"name":"here-1","role":"rehydrator","level":5,"seen":"2026-01-02T03:04:05.000Z"},`+
		`{"name":"old-1","role":"publisher","level":1,"seen":"2026-01-02T03:04:05.000Z"}]}`, w.must(t, http.StatusOK, http.MethodGet, "/v1/admin/processes", ""))
	w.pass(time.Minute + time.Millisecond)
	require.Equal(t, `{"level":5}`+"\n", w.must(t, http.StatusOK, http.MethodPost, "/v1/admin/upgrade", `{"confirm":true}`))
	require.Contains(t, w.must(t, http.StatusOK, http.MethodGet, "/v1/admin/settings", ""),
		`{"key":"dormant_after","recorded":"720h","configured":"720h","since":"2026-01-02T03:05:05.001Z"}`)

	w.see(t, "ann")
	w.pass(40 * 24 * time.Hour)
	const nothing = `"entries":0,"bytes":0}` + "\n"
	change := "/v1/admin/settings/dormant_after"
	require.Equal(t, `{"changed":true,"users":0,`+nothing, w.must(t, http.StatusOK, http.MethodPut, change, `{"value":"60d","dry_run":true}`))
	require.Equal(t, 720*time.Hour, current.Rules().DormantAfter)
	require.Equal(t, `{"changed":true,"users":0,`+nothing, w.must(t, http.StatusOK, http.MethodPut, change, `{"value":"50d"}`), "nothing to confirm")
	require.Equal(t, `{"changed":true,"users":0,`+nothing, w.must(t, http.StatusOK, http.MethodPut, change, `{"value":"60d","confirm":true}`))
	require.Equal(t, 1440*time.Hour, current.Rules().DormantAfter)
	require.Equal(t, `{"changed":false,"users":0,`+nothing, w.must(t, http.StatusOK, http.MethodPut, change, `{"value":"1440h"}`))
	p = problem(http.StatusUnprocessableEntity, http.MethodPut, "/v1/admin/settings/clock_tolerance", `{"value":"5m"}`)
	require.Equal(t, "publish_slack", p.Field)
	p = problem(http.StatusUnprocessableEntity, http.MethodPut, "/v1/admin/settings/addr", `{"value":":1"}`)
	require.Contains(t, p.Detail, "addr is no recorded setting")

	change = "/v1/admin/settings/inbox.bucket_size"
	require.Equal(t, `{"changed":true,"users":0,`+nothing, w.must(t, http.StatusOK, http.MethodPut, change, `{"value":"20","dry_run":true}`))
	require.Equal(t, 50, current.BucketSize())
	require.Equal(t, `{"changed":true,"users":0,`+nothing, w.must(t, http.StatusOK, http.MethodPut, change, `{"value":"20"}`))
	require.Equal(t, 20, current.BucketSize())
	for _, value := range []string{"0", "256", "-1", "many", "20.5", ""} {
		p = problem(http.StatusUnprocessableEntity, http.MethodPut, change, `{"value":"`+value+`"}`)
		require.Equal(t, "inbox.bucket_size", p.Field)
	}
	require.Equal(t, 20, current.BucketSize())
}

func TestAttributes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	services := w.services
	services.Audit = new(audit.Service) // never called
	var current *recorded.Current
	current, services.Settings = recordedIn(t, w.db.Settings(), w)
	w.handler = httpapi.New(services, w.options)
	const path = "/v1/admin/attributes/"
	problem := func(status int, method, target, body string) client.Problem {
		before := w.must(t, http.StatusOK, http.MethodGet, "/v1/admin/attributes", "")
		var p client.Problem
		require.NoError(t, json.Unmarshal([]byte(w.must(t, status, method, target, body)), &p))
		require.Equal(t, before, w.must(t, http.StatusOK, http.MethodGet, "/v1/admin/attributes", ""), "nothing has changed")
		return p
	}

	require.JSONEq(t, `{"attributes":[]}`, w.must(t, http.StatusOK, http.MethodGet, "/v1/admin/attributes", ""))
	w.must(t, http.StatusCreated, http.MethodPut, path+"total", `{"type":"number"}`)
	w.must(t, http.StatusNoContent, http.MethodPut, path+"total", `{"type":"number"}`)
	require.Equal(t, "the attribute total is declared as number: delete it first, or choose another name",
		problem(http.StatusConflict, http.MethodPut, path+"total", `{"type":"string"}`).Detail)
	require.Equal(t, "type", problem(http.StatusUnprocessableEntity, http.MethodPut, path+"due", `{"type":"date"}`).Field)
	require.Equal(t, "name", problem(http.StatusUnprocessableEntity, http.MethodPut, path+"due%20date", `{"type":"time"}`).Field)
	require.Equal(t, client.ProblemNotFound, problem(http.StatusNotFound, http.MethodGet, path+"due", "").Type)
	require.JSONEq(t, `{"name":"total","type":"number"}`, w.must(t, http.StatusOK, http.MethodGet, path+"total", ""))
	for i := range attribute.Max - 1 {
		w.must(t, http.StatusCreated, http.MethodPut, path+"a"+strconv.Itoa(i), `{"type":"bool"}`)
	}
	require.Contains(t, problem(http.StatusUnprocessableEntity, http.MethodPut, path+"due", `{"type":"time"}`).Detail, "32 attributes are declared")
	w.must(t, http.StatusNoContent, http.MethodDelete, path+"total", "")
	w.must(t, http.StatusNoContent, http.MethodDelete, path+"total", "")
	w.must(t, http.StatusCreated, http.MethodPut, path+"total", `{"type":"string"}`)
	d, found := current.Attributes().Find("total")
	require.True(t, found)
	require.Equal(t, attribute.Declaration{Name: "total", Type: attribute.String, Number: attribute.Max + 1}, d, "a number of its own")
}

// TestFilteredInbox filters over HTTP. Bad conditions name the parameter, and are no view.
func TestFilteredInbox(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	services := w.services
	services.Audit = new(audit.Service) // never called
	var current *recorded.Current
	current, services.Settings = recordedIn(t, w.db.Settings(), w)
	services.Inbox = inbox.New(
		inbox.Stores{Messages: w.db.Messages(), Buckets: w.db.Inbox(), Users: w.db.Users(), Appender: w.appender}, services.Rehydrate,
		inbox.Options{Rules: current.Rules, Now: w.clock, Level: current.Level, Attributes: current.Attributes},
	)
	w.handler = httpapi.New(services, w.options)
	w.must(t, http.StatusCreated, http.MethodPut, "/v1/admin/attributes/total", `{"type":"number"}`)
	w.must(t, http.StatusCreated, http.MethodPut, "/v1/admin/attributes/kind", `{"type":"string"}`)
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

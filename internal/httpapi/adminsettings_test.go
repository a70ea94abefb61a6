package httpapi_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/config"
	"github.com/fanmail/fanmail/internal/audit"
	"github.com/fanmail/fanmail/internal/httpapi"
	"github.com/fanmail/fanmail/internal/pebblestore"
	recorded "github.com/fanmail/fanmail/internal/settings"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// recordedIn opens the recorded settings in a store, as a process with the default configuration does.
func recordedIn(t *testing.T, store recorded.Store, w *world) (*recorded.Current, *recorded.Service) {
	t.Helper()
	proposed := config.Default().Recorded()
	current, err := recorded.New(recorded.Options{
		Process: recorded.Process{
			Name: "here-1", Role: "rehydrator", Host: "here", Version: "v1", Address: "127.0.0.1:1",
			Started: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		},
		Configured: proposed.Texts(), Logger: zerolog.Nop(),
		Parse: func(changed map[string]string) (recorded.Values, error) {
			r, err := proposed.With(changed)
			if invalid, ok := errors.AsType[*config.InvalidError](err); ok {
				err = &message.InvalidError{Field: invalid.Key, Reason: invalid.Reason}
			}
			return recorded.Values{
				Rules:  userstate.Rules{DormantAfter: r.DormantAfter, ClockTolerance: r.ClockTolerance, PublishSlack: r.PublishSlack},
				KeyTTL: r.KeyTTL, Texts: r.Texts(),
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

// TestSettings shows and changes settings, and lists the processes.
func TestSettings(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	db, err := pebblestore.Open(t.Context(), "store", pebblestore.Options{
		Partitions: partitions, FS: vfs.NewMem(), Settings: config.Default().Recorded().Texts(), Now: w.clock, Logger: zerolog.Nop(),
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	services := w.services
	services.Audit = new(audit.Service) // never called
	var current *recorded.Current
	current, services.Settings = recordedIn(t, db.Settings(), w)
	w.handler = httpapi.New(services, w.options)
	problem := func(status int, method, target, body string) client.Problem {
		var p client.Problem
		require.NoError(t, json.Unmarshal([]byte(w.must(t, status, method, target, body)), &p))
		return p
	}

	require.JSONEq(t, `{"processes":[{"name":"here-1","role":"rehydrator","host":"here","version":"v1","address":"127.0.0.1:1","state":"running",
		"started":"2026-01-02T03:04:05.000Z","seen":"2026-01-02T03:04:05.000Z"}]}`,
		w.must(t, http.StatusOK, http.MethodGet, "/v1/admin/processes", ""))
	require.Contains(t, w.must(t, http.StatusOK, http.MethodGet, "/v1/admin/settings", ""),
		`{"key":"dormant_after","recorded":"720h","configured":"720h","since":"2026-01-02T03:04:05.000Z"}`)
	p := problem(http.StatusConflict, http.MethodPut, "/v1/admin/settings/retention.newest", `{"value":"100"}`)
	require.Equal(t, client.ProblemUnconfirmed, p.Type)

	w.see(t, "ann")
	w.pass(40 * 24 * time.Hour)
	change := "/v1/admin/settings/dormant_after"
	require.Equal(t, `{"changed":true}`+"\n", w.must(t, http.StatusOK, http.MethodPut, change, `{"value":"60d","dry_run":true}`))
	require.Equal(t, 720*time.Hour, current.Rules().DormantAfter)
	require.Equal(t, `{"changed":true}`+"\n", w.must(t, http.StatusOK, http.MethodPut, change, `{"value":"50d"}`), "nothing to confirm")
	require.Equal(t, `{"changed":true}`+"\n", w.must(t, http.StatusOK, http.MethodPut, change, `{"value":"60d","confirm":true}`))
	require.Equal(t, 1440*time.Hour, current.Rules().DormantAfter)
	require.Equal(t, `{"changed":false}`+"\n", w.must(t, http.StatusOK, http.MethodPut, change, `{"value":"1440h"}`))
	p = problem(http.StatusUnprocessableEntity, http.MethodPut, "/v1/admin/settings/clock_tolerance", `{"value":"5m"}`)
	require.Equal(t, "publish_slack", p.Field)
	p = problem(http.StatusUnprocessableEntity, http.MethodPut, "/v1/admin/settings/addr", `{"value":":1"}`)
	require.Contains(t, p.Detail, "addr is no recorded setting")
}

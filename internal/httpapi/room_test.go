package httpapi_test

import (
	"errors"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/httpapi"
	"github.com/fanmail/fanmail/pkg/message"
)

// TestNoRoom sends every request that adds data to a server with a nearly full disk, and again when there is room.
func TestNoRoom(t *testing.T) {
	t.Parallel()
	var full atomic.Bool
	w := newWorld(t, settings{services: func(s *httpapi.Services) {
		s.Room = func() error {
			if full.Load() {
				return errors.New("the disk has 3 MiB left")
			}
			return nil
		}
	}})
	requests := []struct{ method, target, body string }{
		{http.MethodPost, "/v1/messages", `{"from":"ann","to":["ben"],"body":"x"}`},
		{http.MethodPost, "/v1/messages:batch", `{"from":"ann","to":["ben"],"body":"x"}` + "\n"},
		{http.MethodPut, "/v1/identities/email/joe@example.com", `{"user":"joe"}`},
		{http.MethodPost, "/v1/identities:batch", `{"kind":"handle","value":"joe","user":"joe"}` + "\n"},
		{http.MethodPost, "/v1/following:batch", `{"follower":"ben","followee":"ann"}` + "\n"},
		{http.MethodPut, "/v1/users/ben/following/ann", ""},
	}
	full.Store(true)
	for _, r := range requests {
		answer := w.ask(t, r.method, r.target, r.body)
		require.Equal(t, http.StatusServiceUnavailable, answer.Code, r.target)
		require.NotEmpty(t, answer.Header().Get("Retry-After"))
		require.Contains(t, answer.Body.String(), `"type":"urn:fanmail:problem:busy"`)
		require.Contains(t, answer.Body.String(), "disk is nearly full, and it accepted nothing of this request")
		require.NotContains(t, answer.Body.String(), "3 MiB")
	}
	refs, err := w.db.Messages().Unfinished(t.Context(), message.ID{}, message.MaxID, 10)
	require.NoError(t, err)
	require.Empty(t, refs)
	require.JSONEq(t, `{"users":[],"next":null}`, w.ask(t, http.MethodGet, "/v1/users/ann/followers", "").Body.String())
	require.Equal(t, http.StatusOK, w.ask(t, http.MethodPost, "/v1/users/ben/login", "").Code, "a user who returns is admitted")
	require.Equal(t, http.StatusOK, w.ask(t, http.MethodGet, "/v1/users/ben/inbox", "").Code)
	require.Equal(t, http.StatusNoContent, w.ask(t, http.MethodDelete, "/v1/users/ben/following/ann", "").Code)
	require.JSONEq(t, `{"status":"ready","limited":[{"name":"disk","detail":"the disk is nearly full: messages and edges are refused"}]}`,
		w.must(t, http.StatusOK, http.MethodGet, "/readyz", ""), "whoever reads would lose the only server that there is")

	full.Store(false)
	for _, r := range requests {
		require.Less(t, w.ask(t, r.method, r.target, r.body).Code, http.StatusMultipleChoices, r.target)
	}
	require.JSONEq(t, `{"status":"ready"}`, w.must(t, http.StatusOK, http.MethodGet, "/readyz", ""))
}

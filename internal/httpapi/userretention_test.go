package httpapi_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/client"
)

// A user's own retention holds before the answer.
func TestUserRetention(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	const target = "/v1/users/bob/retention"
	w.see(t, "bob")
	w.deliver(t, "bob", 1, 60)
	w.pass(messagetest.ID(31).Time().Add(720e12).Sub(w.clock())) // message 31 is 200 hours old
	for _, body := range []string{`{}`, `{"newest":0}`, `{"newest":10000001}`, `{"newest":9223372036854775807}`} {
		require.Contains(t, w.must(t, http.StatusUnprocessableEntity, http.MethodPut, target, body), string(client.ProblemInvalid), body)
	}
	require.JSONEq(t, `{}`, w.must(t, http.StatusOK, http.MethodGet, target, ""))
	w.must(t, http.StatusNoContent, http.MethodPut, target, `{"max_age":"200h","newest":100}`)
	require.Contains(t, w.must(t, http.StatusOK, http.MethodGet, "/v1/users/bob", ""), `"total":30`)
	require.JSONEq(t, `{"max_age":"200h","newest":100}`, w.must(t, http.StatusOK, http.MethodGet, target, ""))
	w.must(t, http.StatusNoContent, http.MethodPut, target, `{"max_age":"30d"}`)
	require.JSONEq(t, `{"max_age":"720h"}`, w.must(t, http.StatusOK, http.MethodGet, target, ""))
	w.must(t, http.StatusNoContent, http.MethodDelete, target, "")
	require.JSONEq(t, `{}`, w.must(t, http.StatusOK, http.MethodGet, target, ""))
	require.Contains(t, w.must(t, http.StatusOK, http.MethodGet, "/v1/users/bob", ""), `"total":30`)
}

// A user who was never seen stays one, and keeps the retention at the first login.
func TestRetentionOfAUserNeverSeen(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	c, err := client.New(w.serve(t), client.Options{})
	require.NoError(t, err)
	defer c.Close()
	keep := client.Retention{MaxAge: "720h", Newest: 100}
	require.NoError(t, c.SetRetention(t.Context(), "cy", client.Retention{MaxAge: "30d", Newest: 100}))
	w.must(t, http.StatusNotFound, http.MethodGet, "/v1/users/cy", "")
	for range 2 {
		got, err := c.Retention(t.Context(), "cy")
		require.NoError(t, err)
		require.Equal(t, keep, got)
		if _, err := c.User(t.Context(), "cy"); err == nil {
			break
		}
		login := w.must(t, http.StatusOK, http.MethodPost, "/v1/users/cy/login?wait=1m", "")
		require.Contains(t, login, `"was":"new"`)
	}
	w.must(t, http.StatusOK, http.MethodGet, "/v1/users/cy", "")
	require.NoError(t, c.DeleteRetention(t.Context(), "cy"))
	got, err := c.Retention(t.Context(), "cy")
	require.NoError(t, err)
	require.Zero(t, got)
	for _, err := range []error{c.SetRetention(t.Context(), "", keep), c.DeleteRetention(t.Context(), "")} {
		require.Error(t, err)
	}
	_, err = c.Retention(t.Context(), "")
	require.Error(t, err)
}

package httpapi_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/message"
)

// askRaw sends a request with exactly this path.
func (w *world) askRaw(t *testing.T, method, path string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, "/", nil)
	u, err := url.ParseRequestURI(path)
	require.NoError(t, err)
	r.URL, r.RequestURI = u, path
	answer := httptest.NewRecorder()
	w.handler.ServeHTTP(answer, r)
	return answer
}

func TestPathsThatMightMeanAnother(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	w.see(t, "ann", "bob")
	users := []message.UserID{"ann", "bob", "users", "v1", "inbox"}
	before := w.contents(t, users...)
	for _, tc := range []struct {
		path   string
		status int
	}{
		{"/v1/users/./following/bob", 404},
		{"/v1/users/../users/ann/following/bob", 404},
		{"/v1/users/cy/../ann/following/bob", 404},
		{"/v1/users//following/bob", 404},
		{"/v1//users/ann/following/bob", 404},
		{"//v1/users/ann/following/bob", 404},
		{"/v1/users/ann/following/", 404},
		{"/v1/users/ann/following/bob/", 404},
		{"/v1/users/ann/following/.", 404},
		{"/v1/users/ann/following/..", 404},
		{"/v1/users/%2e/following/bob", 422},
		{"/v1/users/%2e%2e/following/bob", 422},
		{"/v1/users/ann/following/%2E%2E", 422},
		{"/v1/users/.%2e/following/bob", 422},
		{"/v1/users/ann%2Ffollowing/following/bob", 422},
		{"/v1/users/ann%2Ffollowing%2Fbob", 405}, // the path names a user, but the path of a user does not have this method
		{"/v1/users/%2F/following/bob", 404},
		{"/v1/users/cy%2f..%2fann/following/bob", 422},
		{"/v1/users/ann%00/following/bob", 422},
		{"/v1/users/ann%20/following/bob", 422},
		{"/V1/users/ann/following/bob", 404},
		{"/v1", 404},
		{"/", 404},
		{"//", 404},
	} {
		t.Run(tc.path, func(t *testing.T) {
			t.Parallel()
			method := http.MethodDelete
			if tc.status != http.StatusMethodNotAllowed {
				method = http.MethodPut
			}
			answer := w.askRaw(t, method, tc.path)
			require.Equal(t, tc.status, answer.Code, answer.Body)
			require.Empty(t, answer.Header().Get("Location"))
			problem(t, answer)
			require.Equal(t, before, w.contents(t, users...))
		})
	}
}

func TestUserIDsInPaths(t *testing.T) {
	t.Parallel()
	for _, user := range []message.UserID{"ann", "...", "a:batch", "a+b", "100%", "ü😀", "?x=1", "#", "%2F", "a;b", "a&b", `"`, "read"} {
		t.Run(string(user), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, settings{})
			w.see(t, url.PathEscape(string(user)))
			answer := w.askRaw(t, http.MethodPut, "/v1/users/"+url.PathEscape(string(user))+"/following/star")
			require.Equal(t, http.StatusNoContent, answer.Code, answer.Body)
			edges, err := w.db.Edges().Following(t.Context(), user, "", 10)
			require.NoError(t, err)
			require.Len(t, edges, 1)
			require.Equal(t, message.Source("star"), edges[0].Followee)
			require.False(t, w.contents(t, user).States[user].LastViewed.IsZero())
		})
	}
}

func TestConnectAndAsterisk(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	for _, r := range []*http.Request{
		{Method: http.MethodConnect, URL: &url.URL{Host: "example.org:443"}, Host: "example.org:443", Header: http.Header{}},
		{Method: http.MethodOptions, URL: &url.URL{Path: "*"}, RequestURI: "*", Header: http.Header{}},
	} {
		answer := httptest.NewRecorder()
		w.handler.ServeHTTP(answer, r.WithContext(t.Context()))
		require.Equal(t, http.StatusNotFound, answer.Code)
		problem(t, answer)
	}
}

package httpapi_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/client"
)

// FuzzHandler sends arbitrary requests. The server must never fail, and must answer every refused request with a problem document.
func FuzzHandler(f *testing.F) {
	for _, bad := range badInputs() {
		f.Add(bad.method, bad.target, bad.body)
	}
	for _, target := range []string{"/v1/messages:batch", "/v1/following:batch", "/v1/users:batch", "/v1/identities:batch"} {
		f.Add(http.MethodPost, target, "{}\n\n{\"from\":\"a\"}\r\n[")
	}
	f.Add(http.MethodGet, "/v1/users/%2e%2e/inbox", "")
	f.Add(http.MethodPut, "/v1/identities/url/https:%2F%2Fexample.com%2F%25", `{"user":"bob"}`)
	f.Add(http.MethodPost, "/v1/identities:lookup", `{"kind":"phone","value":"+1"}`)
	f.Add(http.MethodPost, "/v1/messages", `{"from":"ann","to":["bob",{"email":"joe@example.com"},{}],"body":"x"}`)
	f.Add(http.MethodPost, "/v1/messages", `{"from":"a\\\ud83d\ude00","to":["b"],"body":"\\u"}`)
	w := badWorld(f)
	f.Fuzz(func(t *testing.T, method, target, body string) {
		u, err := url.ParseRequestURI(target)
		if err != nil || method == "" || strings.ContainsAny(method, " \t\r\n") {
			return // net/http itself answers requests that are not HTTP
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(body))
		r.Method, r.URL, r.RequestURI = method, u, target
		answer := httptest.NewRecorder()
		w.handler.ServeHTTP(answer, r)
		if answer.Code/100 == 2 {
			return
		}
		require.Equal(t, 4, answer.Code/100, "%s %s: %s", method, target, answer.Body)
		require.Equal(t, client.ContentProblem, answer.Header().Get("Content-Type"))
		problem(t, answer)
	})
}

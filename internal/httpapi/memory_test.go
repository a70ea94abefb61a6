package httpapi_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/httpapi"
	"github.com/fanmail/fanmail/pkg/client"
)

// Requests that would have to wait for memory are refused as busy. What needs little is served.
func TestRequestsWaitForMemory(t *testing.T) {
	t.Parallel()
	const total = 256 << 20
	memory := httpapi.NewMemory(total)
	w := guarded(t, settings{options: func(o *httpapi.Options) { o.Memory = memory }})
	release, err := memory.Reserve(t.Context(), total-1)
	require.NoError(t, err)
	for method, target := range map[string]string{http.MethodGet: "/v1/users/bob/inbox", http.MethodPost: "/v1/messages"} {
		answer := w.ask(t, method, target, `{"from":"dee","to":["cy"],"body":"x"}`, as(map[string]string{http.MethodGet: "bob", http.MethodPost: "dee"}[method])...)
		require.NotEmpty(t, answer.Header().Get("Retry-After"))
		require.Equal(t, client.ProblemBusy, problem(t, answer).Type)
	}
	w.must(t, http.StatusOK, http.MethodGet, "/v1/topics", "", as("bob")...)
	release()
	w.must(t, http.StatusOK, http.MethodGet, "/v1/users/bob/inbox", "", as("bob")...)
	w.must(t, http.StatusAccepted, http.MethodPost, "/v1/messages", `{"from":"dee","to":["cy"],"body":"x"}`, as("dee")...)
	release, err = memory.Reserve(t.Context(), 2*total)
	require.NoError(t, err, "what is never there is all there is, and all requests have given back theirs")
	release()
}

// A token may have eight pages at a time, another one as many besides.
func TestPagesOfATokenAreBounded(t *testing.T) {
	t.Parallel()
	memory := httpapi.NewMemory(1)
	ended, end := context.WithCancel(t.Context())
	end()
	var release []func()
	for range 8 {
		leave, err := httpapi.Page(memory, t.Context(), "a")
		require.NoError(t, err)
		release = append(release, leave)
	}
	_, err := httpapi.Page(memory, ended, "a")
	require.ErrorIs(t, err, context.Canceled)
	leave, err := httpapi.Page(memory, t.Context(), "b")
	require.NoError(t, err)
	leave()
	release[0]()
	release[0], err = httpapi.Page(memory, t.Context(), "a")
	require.NoError(t, err)
	for _, leave := range release {
		leave()
	}
	require.Zero(t, httpapi.Tokens(memory))
}

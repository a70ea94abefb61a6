package httpapi_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzAuthorization sends arbitrary headers of authentication. Without a known token, every answer must be 401.
func FuzzAuthorization(f *testing.F) {
	w := guarded(f, settings{})
	for _, seed := range []string{
		"", "Bearer", "Bearer ", "Bearer  " + token("cy"), "bearer " + token("bob"), "Basic Ym9iOmJvYg==", "Bearer " + token("bob") + ",", "Bearer a.b.c",
		"Bearer " + strings.Repeat("A", 9000), "Bearer \x00", token("bob"), "Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJib2IifQ.",
	} {
		f.Add(seed, "")
		f.Add("Bearer "+token("cy"), seed)
	}
	f.Fuzz(func(t *testing.T, first, second string) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/users/bob/following", http.NoBody)
		r.Header["Authorization"] = []string{first}
		if second != "" {
			r.Header["Authorization"] = append(r.Header["Authorization"], second)
		}
		answer := httptest.NewRecorder()
		w.handler.ServeHTTP(answer, r)
		if answer.Code == http.StatusOK {
			scheme, credentials, _ := strings.Cut(first, " ")
			require.Empty(t, second)
			require.True(t, strings.EqualFold(scheme, "Bearer"))
			require.Contains(t, []string{token("bob"), token("gateway"), token("operator")}, strings.TrimSpace(credentials))
			return
		}
		require.Contains(t, []int{http.StatusUnauthorized, http.StatusForbidden}, answer.Code)
		require.NotContains(t, answer.Body.String(), "secret")
		problem(t, answer)
	})
}

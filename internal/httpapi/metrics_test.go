package httpapi_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"
	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/fanmail/fanmail/internal/httpapi"
	"github.com/fanmail/fanmail/internal/tracing"
)

// Requests are counted by route, method and status class. Unknown paths and methods share labels, so clients cannot create new
// ones.
func TestRequestsAreCounted(t *testing.T) {
	t.Parallel()
	measured := prometheus.NewRegistry()
	w := newWorld(t, settings{options: func(o *httpapi.Options) { o.Metrics = measured }})
	before := testutil.CollectAndCount(measured)
	w.ask(t, http.MethodPost, "/v1/messages", `{"from":"ann","to":["ben"],"body":"x"}`)
	w.ask(t, http.MethodPost, "/v1/messages", `{"from":"ann"}`)
	w.ask(t, http.MethodPost, "/v1/messages", `{`)
	w.ask(t, http.MethodGet, "/v1/users/cleo/inbox", "")
	w.ask(t, http.MethodHead, "/v1/users/cleo/inbox", "")
	w.ask(t, "BREW", "/v1/users/cleo/inbox", "")
	w.ask(t, http.MethodPatch, "/v1/users/cleo/inbox", "")
	w.ask(t, "BREW", "/no/such/path", "")
	w.ask(t, http.MethodGet, "/v1//users", "")
	require.Equal(t, before, testutil.CollectAndCount(measured), "no client makes a new series")
	var counted []string
	for line := range strings.Lines(metricsText(t, measured)) {
		if strings.HasPrefix(line, "fanmail_http_requests_total") && !strings.HasSuffix(line, " 0\n") {
			counted = append(counted, strings.TrimSpace(strings.TrimPrefix(line, "fanmail_http_requests_total")))
		}
	}
	require.ElementsMatch(t, []string{
		`{class="2xx",method="POST",route="/v1/messages"} 1`,
		`{class="4xx",method="POST",route="/v1/messages"} 2`,
		`{class="2xx",method="GET",route="/v1/users/{user}/inbox"} 2`,
		`{class="4xx",method="other",route="/v1/users/{user}/inbox"} 2`,
		`{class="4xx",method="other",route="none"} 2`,
	}, counted)
	require.Contains(t, metricsText(t, measured), "fanmail_http_requests_in_flight 0\n")
}

// The handler serves a traced request as a copy. The pattern is set in the copy, and the metrics must use it.
func TestTracedRequestsAreCounted(t *testing.T) {
	t.Parallel()
	measured := prometheus.NewRegistry()
	w := newWorld(t, settings{options: func(o *httpapi.Options) {
		o.Metrics, o.Tracer = measured, tracing.New(sdktrace.NewTracerProvider())
	}})
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/users/cleo/inbox", nil)
	w.handler.ServeHTTP(httptest.NewRecorder(), r)
	require.Contains(t, metricsText(t, measured), `fanmail_http_requests_total{class="2xx",method="GET",route="/v1/users/{user}/inbox"} 1`)
}

func metricsText(t *testing.T, measured *prometheus.Registry) string {
	t.Helper()
	text, err := testutil.CollectAndFormat(measured, expfmt.TypeTextPlain, "fanmail_http_requests_total", "fanmail_http_requests_in_flight")
	require.NoError(t, err)
	return string(text)
}

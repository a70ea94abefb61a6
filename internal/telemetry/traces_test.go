package telemetry_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"

	"github.com/fanmail/fanmail/internal/telemetry"
	"github.com/fanmail/fanmail/internal/telemetry/telemetrytest"
)

// environment returns a getenv that reads these variables.
func environment(env map[string]string) func(string) string {
	return func(name string) string { return env[name] }
}

func TestTracesAreOffByDefault(t *testing.T) {
	t.Parallel()
	for name, env := range map[string]map[string]string{
		"nothing":  {},
		"none":     {"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"},
		"disabled": {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_SDK_DISABLED": "true"},
	} {
		traces, err := telemetry.NewTraces(t.Context(), telemetry.TracesOptions{Getenv: environment(env), Logger: zerolog.Nop()})
		require.NoError(t, err, name)
		require.Nil(t, traces, name)
	}
}

func TestTracesRefuse(t *testing.T) {
	t.Parallel()
	for want, env := range map[string]map[string]string{
		`OTEL_TRACES_EXPORTER is "zipkin": give otlp, console or none`: {"OTEL_TRACES_EXPORTER": "zipkin"},
		`OTEL_EXPORTER_OTLP_PROTOCOL is "udp": give http/protobuf, http/json or grpc`: {
			"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "udp",
		},
		`OTEL_EXPORTER_OTLP_TRACES_PROTOCOL is "udp": give http/protobuf, http/json or grpc`: {
			"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "udp",
		},
		`OTEL_TRACES_SAMPLER is "some": give always_on, always_off, traceidratio, parentbased_always_on, parentbased_always_off or ` +
			`parentbased_traceidratio`: {"OTEL_TRACES_EXPORTER": "console", "OTEL_TRACES_SAMPLER": "some"},
		`OTEL_TRACES_SAMPLER_ARG is "2": give a share from 0 to 1, such as 0.01`: {
			"OTEL_TRACES_EXPORTER": "console", "OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "2",
		},
		`OTEL_TRACES_SAMPLER_ARG is "NaN": give a share from 0 to 1, such as 0.01`: {
			"OTEL_TRACES_EXPORTER": "console", "OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "NaN",
		},
	} {
		_, err := telemetry.NewTraces(t.Context(), telemetry.TracesOptions{Getenv: environment(env), Logger: zerolog.Nop()})
		require.EqualError(t, err, want)
	}
}

// TestEndpointIsLogged shows that the log names the collector, without its password.
func TestEndpointIsLogged(t *testing.T) {
	t.Parallel()
	for want, env := range map[string]map[string]string{
		"http://joe:xxxxx@127.0.0.1:1/v1/traces": {
			"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:2", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://joe:hunter2@127.0.0.1:1/v1/traces",
		},
		"http://127.0.0.1:2": {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:2"},
		"default":            {"OTEL_TRACES_EXPORTER": "otlp"},
		"unreadable":         {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://joe:hunter2@127.0.0.1:port"},
	} {
		log := &telemetrytest.Buffer{}
		traces, err := telemetry.NewTraces(t.Context(), telemetry.TracesOptions{Getenv: environment(env), Logger: zerolog.New(log)})
		require.NoError(t, err)
		require.Contains(t, log.String(), `"endpoint":"`+want+`"`)
		require.NotContains(t, log.String(), "hunter2")
		require.NoError(t, traces.Shutdown(t.Context()))
	}
}

// TestTracesAreSampled starts a thousand traces and counts the recorded ones.
func TestTracesAreSampled(t *testing.T) {
	t.Parallel()
	link := trace.Link{SpanContext: trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}, TraceFlags: trace.FlagsSampled})}
	for name, test := range map[string]struct {
		sampler, ratio string
		least, most    int
		linked         bool // whether a trace that links to a sampled trace is recorded
	}{
		"one in a hundred by default":        {least: 1, most: 40, linked: true},
		"all":                                {sampler: "always_on", least: 1000, most: 1000, linked: true},
		"none":                               {sampler: "always_off"},
		"only with a sampled parent or link": {sampler: "parentbased_always_off", linked: true},
		"all, parent based":                  {sampler: "parentbased_always_on", least: 1000, most: 1000, linked: true},
		"half":                               {sampler: "parentbased_traceidratio", ratio: "0.5", least: 350, most: 650, linked: true},
		"a ratio of all":                     {sampler: "traceidratio", least: 1000, most: 1000, linked: true},
		"a ratio of none":                    {sampler: "traceidratio", ratio: "0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			traces, err := telemetry.NewTraces(t.Context(), telemetry.TracesOptions{
				Getenv: environment(map[string]string{
					"OTEL_TRACES_EXPORTER": "console", "OTEL_TRACES_SAMPLER": test.sampler, "OTEL_TRACES_SAMPLER_ARG": test.ratio,
				}),
				Writer: io.Discard, Logger: zerolog.Nop(),
			})
			require.NoError(t, err)
			tracer, recorded := traces.Tracer("test"), 0
			for range 1000 {
				_, span := tracer.Start(t.Context(), "x")
				if span.IsRecording() {
					recorded++
				}
				span.End()
			}
			require.GreaterOrEqual(t, recorded, test.least)
			require.LessOrEqual(t, recorded, test.most)
			_, span := tracer.Start(t.Context(), "x", trace.WithLinks(link))
			require.Equal(t, test.linked, span.IsRecording())
			require.NoError(t, traces.Shutdown(t.Context()))
		})
	}
}

// TestTracesAreExported exports a span to a collector. The collector has received the span when Shutdown returns.
func TestTracesAreExported(t *testing.T) { //nolint:paralleltest // the test sets the environment of the process
	received := make(chan []byte, 1)
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil && r.URL.Path == "/v1/traces" {
			received <- body
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, "{}")
	}))
	defer collector.Close()
	env := map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": collector.URL, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json",
		"OTEL_TRACES_SAMPLER": "always_on", "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test",
	}
	for name, value := range env { // the exporter reads the environment of the process
		t.Setenv(name, value)
	}
	var log bytes.Buffer
	traces, err := telemetry.NewTraces(t.Context(), telemetry.TracesOptions{
		Getenv: environment(env), Service: "fanmail-publisher", Version: "v1", Instance: "one", Logger: zerolog.New(&log),
	})
	require.NoError(t, err)
	require.JSONEq(t, `{"level":"info","endpoint":"`+collector.URL+`","exporter":"otlp","sampler":"AlwaysOnSampler","message":"spans are exported"}`, log.String())
	_, span := traces.Tracer("test").Start(t.Context(), "publish")
	span.End()
	require.NoError(t, traces.Shutdown(t.Context()))
	var got struct {
		ResourceSpans []struct {
			Resource struct {
				Attributes []struct {
					Key   string
					Value struct{ StringValue string }
				}
			}
			ScopeSpans []struct{ Spans []struct{ Name string } }
		}
	}
	body := <-received
	require.NoError(t, json.Unmarshal(body, &got), string(body))
	require.Equal(t, "publish", got.ResourceSpans[0].ScopeSpans[0].Spans[0].Name)
	attributes := map[string]string{}
	for _, a := range got.ResourceSpans[0].Resource.Attributes {
		attributes[a.Key] = a.Value.StringValue
	}
	require.Equal(t, "fanmail-publisher", attributes["service.name"])
	require.Equal(t, "v1", attributes["service.version"])
	require.Equal(t, "one", attributes["service.instance.id"])
	require.Equal(t, "test", attributes["deployment.environment.name"])
}

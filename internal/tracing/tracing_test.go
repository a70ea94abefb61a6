package tracing_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/fanmail/fanmail/internal/tracing"
	"github.com/fanmail/fanmail/pkg/event"
)

const (
	sampled   = "00-11111111111111111111111111111111-aaaaaaaaaaaaaaaa-01"
	unsampled = "00-22222222222222222222222222222222-bbbbbbbbbbbbbbbb-00"
)

func record(t *testing.T) (tracing.Tracer, *tracetest.InMemoryExporter) {
	t.Helper()
	exporter := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
	t.Cleanup(func() { require.NoError(t, provider.Shutdown(context.WithoutCancel(t.Context()))) })
	return tracing.New(provider), exporter
}

func TestOffCostsNothing(t *testing.T) { //nolint:paralleltest // it counts what the process allocates
	require.False(t, tracing.New(nil).On())
	ctx := t.Context()
	require.Zero(t, testing.AllocsPerRun(100, func() {
		var off tracing.Tracer
		within, span := off.Start(tracing.Within(ctx, event.Trace{}), "append")
		if span.IsRecording() || tracing.Of(within) != (event.Trace{}) {
			t.Error("something is recorded")
		}
		span.Done(nil)
	}))
}

func TestATraceCrossesTheBus(t *testing.T) {
	t.Parallel()
	tracer, exporter := record(t)
	given := event.Trace{Parent: sampled, State: "vendor=1"}
	ctx, span := tracer.Start(tracing.Within(t.Context(), given), "route")
	sent := tracing.Of(ctx)
	span.Done(nil)
	require.Equal(t, "00-11111111111111111111111111111111-"+span.SpanContext().SpanID().String()+"-01", sent.Parent)
	require.Equal(t, "vendor=1", sent.State)
	got := exporter.GetSpans()[0]
	require.Equal(t, "aaaaaaaaaaaaaaaa", got.Parent.SpanID().String())
	require.True(t, got.Parent.IsRemote())
}

func TestWhatCannotBeReadBeginsATrace(t *testing.T) {
	t.Parallel()
	for _, parent := range []string{"", "x", strings.ToUpper(sampled), "00-0-0-0", strings.Repeat("0", 55)} {
		require.Equal(t, event.Trace{}, tracing.Of(tracing.Within(t.Context(), event.Trace{Parent: parent})), parent)
	}
	long := event.Trace{Parent: sampled, State: "a=" + strings.Repeat("x", 200) + ",b=" + strings.Repeat("x", 200) + ",c=" + strings.Repeat("x", 200)}
	require.Equal(t, event.Trace{Parent: sampled}, tracing.Of(tracing.Within(t.Context(), long)), "a state that is too long is dropped")
}

func TestWithinRequest(t *testing.T) {
	t.Parallel()
	h := http.Header{}
	h.Set("Traceparent", sampled)
	h.Set("Baggage", "secret=1")
	require.Equal(t, event.Trace{Parent: sampled}, tracing.Of(tracing.WithinRequest(t.Context(), h)))
}

func TestTogether(t *testing.T) {
	t.Parallel()
	many := make([]event.Trace, 2*tracing.ListMax)
	for i := range many {
		many[i] = event.Trace{Parent: sampled}
	}
	for name, test := range map[string]struct {
		traces   []event.Trace
		parent   string
		links    int
		recorded bool
	}{
		"one":                  {traces: []event.Trace{{Parent: sampled}}, parent: "aaaaaaaaaaaaaaaa", recorded: true},
		"one without":          {traces: []event.Trace{{}}, parent: "0000000000000000", recorded: true},
		"one that is not":      {traces: []event.Trace{{Parent: unsampled}}},
		"several":              {traces: []event.Trace{{Parent: sampled}, {Parent: unsampled}, {}, {Parent: sampled}}, parent: "0000000000000000", links: 2, recorded: true},
		"several that are not": {traces: []event.Trace{{Parent: unsampled}, {Parent: unsampled}}},
		"very many":            {traces: many, parent: "0000000000000000", links: tracing.ListMax, recorded: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tracer, exporter := record(t)
			ctx, how := tracing.Together(t.Context(), test.traces)
			_, span := tracer.Start(ctx, "deliver", how...)
			span.Done(nil)
			require.Equal(t, test.recorded, span.IsRecording() || len(exporter.GetSpans()) == 1)
			if !test.recorded {
				return
			}
			got := exporter.GetSpans()[0]
			require.Equal(t, test.parent, got.Parent.SpanID().String())
			require.Len(t, got.Links, test.links)
		})
	}
}

func TestDone(t *testing.T) {
	t.Parallel()
	tracer, exporter := record(t)
	_, span := tracer.Start(t.Context(), "append", trace.WithSpanKind(trace.SpanKindInternal))
	span.Done(errors.New("the store is away"))
	got := exporter.GetSpans()[0]
	require.Equal(t, sdktrace.Status{Code: codes.Error, Description: "the store is away"}, got.Status)
}

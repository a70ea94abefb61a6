package tracing

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/fanmail/fanmail/pkg/event"
)

// format is how traces are written in headers. It is the only one: nothing here uses the W3C's baggage, and what a stranger sends
// as such is not passed on.
var format propagation.TraceContext

const (
	parentHeader = "traceparent"
	stateHeader  = "tracestate"
	// maxState is how long a tracestate may be that is passed on: as long as the standard demands. It is repeated in every task.
	maxState = 512
)

// carrier is a propagation.TextMapCarrier.
type carrier struct{ trace *event.Trace }

// Get implements propagation.TextMapCarrier.
func (c carrier) Get(key string) string {
	switch key {
	case parentHeader:
		return c.trace.Parent
	case stateHeader:
		return c.trace.State
	default:
		return ""
	}
}

// Set implements propagation.TextMapCarrier.
func (c carrier) Set(key, value string) {
	switch {
	case key == parentHeader:
		c.trace.Parent = value
	case key == stateHeader && len(value) <= maxState:
		c.trace.State = value
	}
}

// Keys implements propagation.TextMapCarrier.
func (c carrier) Keys() []string { return []string{parentHeader, stateHeader} }

// WithinRequest returns ctx within what the headers of a request tell of, if they do.
func WithinRequest(ctx context.Context, h http.Header) context.Context {
	return format.Extract(ctx, propagation.HeaderCarrier(h))
}

// read returns what a Trace tells of; nothing valid where that cannot be read.
func read(t event.Trace) trace.SpanContext {
	return trace.SpanContextFromContext(Within(context.Background(), t))
}

// Together returns the context and options for the span of work on several events. The span of a single event is in the trace of that
// event. Otherwise the span begins a trace of its own, with links to at most ListMax sampled ones.
func Together(ctx context.Context, traces []event.Trace) (context.Context, []trace.SpanStartOption) {
	var links []trace.Link
	for _, t := range traces {
		if len(traces) == 1 || len(links) == ListMax {
			break
		}
		if sc := read(t); sc.IsSampled() {
			links = append(links, trace.Link{SpanContext: sc})
		}
	}
	switch {
	case len(links) > 0:
		return ctx, []trace.SpanStartOption{trace.WithNewRoot(), trace.WithLinks(links...)}
	case len(traces) > 0:
		return Within(ctx, traces[0]), nil // where none is sampled, it is not either
	default:
		return ctx, nil
	}
}

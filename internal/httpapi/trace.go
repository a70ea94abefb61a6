package httpapi

import (
	"net/http"
	"strings"

	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/fanmail/fanmail/internal/tracing"
)

// begin starts the span of a request, within the trace that the request's headers name. It returns the request with that context.
// Requests outside /v1, such as health checks and metrics, have no span.
func (s *server) begin(w *response, r *http.Request) (*http.Request, tracing.Work) {
	if !s.opts.Tracer.On() || !strings.HasPrefix(r.URL.Path, "/v1/") {
		return r, tracing.Work{}
	}
	ctx, span := s.opts.Tracer.Start(tracing.WithinRequest(r.Context(), r.Header), r.Method, trace.WithSpanKind(trace.SpanKindServer))
	if span.IsRecording() {
		w.trace = span.SpanContext().TraceID().String()
	}
	return r.WithContext(ctx), span
}

// end ends the span of an answered request.
func (s *server) end(w *response, r *http.Request, span tracing.Work) {
	if span.Span == nil {
		return
	}
	defer span.End()
	if !span.IsRecording() {
		return
	}
	if r.Pattern != "" && r.Pattern != "/" {
		span.SetName(r.Method + " " + r.Pattern)
		span.SetAttributes(attribute.String("http.route", r.Pattern))
	}
	span.SetAttributes(
		attribute.String("http.request.method", r.Method), attribute.Int("http.response.status_code", w.outcome()),
		tracing.RequestID.String(w.request),
	)
	if !w.message.IsZero() {
		span.SetAttributes(tracing.MessageID.String(w.message.String()))
	}
	if status := w.outcome(); status >= http.StatusInternalServerError {
		span.SetStatus(codes.Error, http.StatusText(status))
	}
}

// line adds the ids of a request and of its trace to a log line.
func (s *server) line(w *response, e *zerolog.Event) *zerolog.Event {
	e = e.Str("request_id", w.request)
	if w.trace != "" {
		e = e.Str("trace_id", w.trace)
	}
	return e
}
